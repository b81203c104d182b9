"""POST /plants, tested without a socket: every status, and when it is sent."""

from typing import Any

import pytest

from plantstore.errors import ErrorCode
from plantstore.observe import RequestFailed
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from plantstore.store import Store
from support.world import VALID, World, assert_error, run


@pytest.mark.parametrize(
    ("body", "plant", "answered"),
    [
        (
            VALID,
            NewPlant(1, "Abies balsamea (L.) Mill.", "Abies"),
            VALID.replace(b'"id": 1, ', b""),
        ),
        (b'{"id":-7.0,"name":""}', NewPlant(-7, ""), b'{"name":""}'),
        (b'{"id":1e3,"name":"x","tag":""}', NewPlant(1000, "x", ""), b'{"name":"x","tag":""}'),
    ],
)
def test_a_valid_plant_is_stored_and_returned_without_its_id(
    store: Store, body: bytes, plant: NewPlant, answered: bytes
) -> None:
    async def test(world: World) -> None:
        answer = await world.post(body)

        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.content.replace(b" ", b"") == answered.replace(b" ", b"")

    assert run(test, World(store)).store.plants == {plant.id: plant}


def test_a_repeated_create_gets_the_same_response_and_a_different_plant_is_refused(
    store: Store,
) -> None:
    async def test(world: World) -> None:
        first, again = await world.post(), await world.post()
        assert (again.status_code, again.content) == (200, first.content)

        other = await world.post(b'{"id": 1, "name": "other"}')
        assert_error(other, 400, ErrorCode.ID_TAKEN)
        message = "`id` is taken: another plant is stored under the id 1"
        assert other.json()["message"] == message

    assert [plant.tag for plant in run(test, World(store)).store.plants.values()] == ["Abies"]


def test_an_invalid_body_is_refused_with_400() -> None:
    async def test(world: World) -> None:
        assert_error(await world.post(b""), 400, ErrorCode.NOT_JSON)
        assert_error(await world.post(b'{"id":1}'), 400, ErrorCode.INVALID_PLANT)
        nul = await world.post(b'{"id":1,"name":"\\u0000"}')
        assert_error(nul, 400, ErrorCode.UNSTORABLE_TEXT)

    assert not run(test).store.plants


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json ;\tCharset=utf-8",
        "application/json;",
        "application/json ; ",
        "application/json; charset=utf8",
        'application/json; charset="UTF8";',
        "application/json;;charset=utf-8",
    ],
)
def test_the_json_media_type_is_accepted_in_every_spelling(media_type: str) -> None:
    async def test(world: World) -> None:
        headers = {"Content-Type": media_type, "Authorization": f"Bearer {world.token}"}
        assert (await world.post(headers=headers)).status_code == 200

    run(test)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Content-Type": ""},
        {"Content-Type": "text/json"},
        {"Content-Type": "application/jsonx"},
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json; charset=utf-8; x=y"},
        {"Content-Type": "application/json charset=utf-8"},
        {"Content-Type": "application/json; charset="},
        {"Content-Type": "application/json; charset=utf8; charset=utf-16"},
        {"Content-Type": "application/json" + "; " * 10_000 + "x"},
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "application/json", "Content-Encoding": "identity"},
    ],
)
def test_any_other_media_type_and_any_content_coding_is_415(headers: dict[str, str]) -> None:
    async def test(world: World) -> None:
        bearer = {"Authorization": f"Bearer {world.token}"}
        answer = await world.post(headers=headers | bearer)
        assert_error(answer, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
        assert answer.headers["Accept"] == "application/json"
        assert answer.headers["Accept-Encoding"] == "identity"

    run(test)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_may_have_64_kib_and_no_more(chunked: bool) -> None:  # noqa: FBT001
    def padded(size: int) -> Any:
        body = VALID + b" " * (size - len(VALID))
        if not chunked:
            return body

        async def pieces() -> Any:
            for start in range(0, size, 10_000):
                yield body[start : start + 10_000]

        return pieces()

    async def test(world: World) -> None:
        assert (await world.post(padded(PLANT_BYTES_MAX))).status_code == 200
        too_large = await world.post(padded(PLANT_BYTES_MAX + 1))
        assert_error(too_large, 413, ErrorCode.BODY_TOO_LARGE)
        assert str(PLANT_BYTES_MAX) in too_large.json()["message"]

    run(test)


def test_an_endless_chunked_body_is_read_only_up_to_the_limit() -> None:
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 100
            yield b" " * 100

    async def test(world: World) -> None:
        assert_error(await world.post(endless()), 413, ErrorCode.BODY_TOO_LARGE)
        assert read <= PLANT_BYTES_MAX + 200

    run(test)


def test_a_full_queue_is_503_with_retry_after() -> None:
    async def test(world: World) -> None:
        answer = await world.post()
        assert_error(answer, 503, ErrorCode.OVERLOADED)
        assert 1 <= int(answer.headers["Retry-After"]) <= 5
        assert answer.headers["X-Request-Id"]

    assert not run(test, World(waiting_changes_max=0)).store.plants


def test_an_unexpected_error_is_500_with_a_fixed_message_and_is_reported() -> None:
    error = ZeroDivisionError("a secret of the inside")
    ids: list[str] = []

    async def test(world: World) -> None:
        world.store.failure = error
        answer = await world.post()
        assert_error(answer, 500, ErrorCode.INTERNAL)
        assert "secret" not in answer.text
        ids.append(answer.headers["X-Request-Id"])

    [failed] = run(test).told(RequestFailed)
    assert (failed.error, failed.method, failed.path) == (error, "POST", "/plants")
    assert [failed.request_id] == ids


def test_running_out_of_memory_is_503() -> None:
    async def test(world: World) -> None:
        world.store.failure = MemoryError()
        answer = await world.post()
        assert_error(answer, 503, ErrorCode.OVERLOADED)
        assert int(answer.headers["Retry-After"]) in range(1, 6)

    assert not run(test).told(RequestFailed)


def test_unknown_paths_and_methods_are_404_and_405_with_an_error_record() -> None:
    async def test(world: World) -> None:
        for path in ("/", "/Plants", "/plants/1/", "/plants/1/2", "/x" * 1000):
            assert_error(await world.client.get(path), 404, ErrorCode.NOT_FOUND)
        for path in ("//plants", "//plants/1", "//healthz", "///"):
            answer = await world.send("GET", f"http://plants.test{path}")
            assert_error(answer, 404, ErrorCode.NOT_FOUND)
        for path, method, allowed in (
            *(("/plants", method, "GET, HEAD, POST") for method in ("PUT", "DELETE", "PATCH")),
            ("/plants/1", "POST", "DELETE, GET, HEAD, OPTIONS, PATCH, PUT"),
        ):
            answer = await world.client.request(method, path)
            assert_error(answer, 405, ErrorCode.METHOD_NOT_ALLOWED)
            assert set(allowed.split(", ")) <= set(answer.headers["Allow"].split(", "))

    run(test)


def test_the_interface_document_needs_no_token() -> None:
    async def test(world: World) -> None:
        answer = await world.client.get("/openapi.json")
        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.json()["openapi"] == "3.1.0"

    run(test)
