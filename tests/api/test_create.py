"""POST /plants, in this process: every status, and that it is the right one."""

import asyncio
from typing import Any

import pytest

from plantstore.api.auth import CACHE_SECONDS
from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.observe import RequestFailed
from plantstore.plants import NewPlant
from plantstore.tokens import mint
from support.world import BODY_BYTES_MAX, JSON, VALID, World, assert_error, run


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
def test_a_valid_plant_is_stored_and_answered_without_its_id(
    body: bytes, plant: NewPlant, answered: bytes
) -> None:
    async def test(world: World) -> None:
        answer = await world.post(body)

        assert answer.status_code == 200
        assert answer.headers["Content-Type"] == "application/json"
        assert answer.content.replace(b" ", b"") == answered.replace(b" ", b"")

    assert run(test).store.plants == {plant.id: plant}


def test_the_same_plant_again_is_answered_the_same_and_another_is_refused() -> None:
    async def test(world: World) -> None:
        first, again = await world.post(), await world.post()
        assert (again.status_code, again.content) == (200, first.content)

        other = await world.post(b'{"id": 1, "name": "other"}')
        assert_error(other, 400, ErrorCode.ID_TAKEN)
        assert "`$.id`" in other.json()["message"]

    assert [plant.tag for plant in run(test).store.plants.values()] == ["Abies"]


def test_an_invalid_body_is_refused_with_400() -> None:
    async def test(world: World) -> None:
        assert_error(await world.post(b""), 400, ErrorCode.NOT_JSON)
        assert_error(await world.post(b'{"id":1}'), 400, ErrorCode.INVALID_PLANT)
        nul = await world.post(b'{"id":1,"name":"\\u0000"}')
        assert_error(nul, 400, ErrorCode.UNSTORABLE_TEXT)

    assert not run(test).store.plants


@pytest.mark.parametrize(
    ("headers", "challenge", "code"),
    [
        ({}, 'Bearer realm="plantstore"', ErrorCode.TOKEN_MISSING),
        (
            {"Authorization": "Basic YTpi"},
            'Bearer realm="plantstore"',
            ErrorCode.TOKEN_MISSING,
        ),
        *(
            (
                {"Authorization": value},
                'Bearer realm="plantstore", error="invalid_token"',
                ErrorCode.TOKEN_INVALID,
            )
            for value in ("Bearer", "Bearer ", "Bearer x", "Bearer é", f"Bearer {mint()}")
        ),
    ],
)
def test_without_a_good_token_the_answer_is_a_challenge(
    headers: dict[str, str], challenge: str, code: ErrorCode
) -> None:
    async def test(world: World) -> None:
        encoded = [(name.encode(), value.encode()) for name, value in (JSON | headers).items()]
        answer = await world.client.post("/plants", content=VALID, headers=encoded)
        assert_error(answer, 401, code)
        assert answer.headers["WWW-Authenticate"] == challenge

    assert not run(test).store.plants


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer "])
def test_the_scheme_may_be_written_in_any_case(scheme: str) -> None:
    async def test(world: World) -> None:
        answer = await world.post(headers=JSON | {"Authorization": f"{scheme} {world.token}"})
        assert answer.status_code == 200

    run(test)


def test_a_token_in_the_query_is_no_token() -> None:
    async def test(world: World) -> None:
        path = f"/plants?access_token={world.token}"
        answer = await world.client.post(path, content=VALID, headers=JSON)
        assert_error(answer, 401, ErrorCode.TOKEN_MISSING)

    run(test)


def test_a_token_without_the_scope_is_told_which_one_it_lacks() -> None:
    async def test(world: World) -> None:
        answer = await world.post(token=world.add_token("reader", "plants:read"))
        assert_error(answer, 403, ErrorCode.SCOPE_MISSING)
        assert answer.headers["WWW-Authenticate"] == (
            'Bearer realm="plantstore", error="insufficient_scope", scope="plants:create"'
        )

    run(test)


def test_a_token_is_refused_from_the_second_in_which_it_expires() -> None:
    async def test(world: World) -> None:
        token = world.add_token("short", expires_at=1002)
        assert (await world.post(token=token)).status_code == 200
        world.now = 1001.9
        assert (await world.post(token=token)).status_code == 200
        world.now = 1002.0
        assert_error(await world.post(token=token), 401, ErrorCode.TOKEN_INVALID)
        world.now = 1.0  # a clock set back
        assert (await world.post(token=token)).status_code == 200

    run(test)


def test_a_revoked_token_is_refused_once_its_cache_entry_expires() -> None:
    async def test(world: World) -> None:
        assert (await world.post()).status_code == 200
        world.store.revoke_token("all", 1000)
        world.now += CACHE_SECONDS + 0.1
        answer = await world.post()
        assert_error(answer, 401, ErrorCode.TOKEN_INVALID)
        assert "revoked" in answer.json()["message"]

    assert CACHE_SECONDS <= 2
    run(test)


def test_a_believed_token_is_not_looked_up_and_many_requests_share_one_look_up() -> None:
    async def test(world: World) -> None:
        await asyncio.gather(*(world.post() for _ in range(10)))
        assert world.store.lookups == 1
        await world.post()
        assert world.store.lookups == 1

        await world.post(token=mint()[:-1] + "!")
        assert world.store.lookups == 1, "a wrong checksum is refused without a look-up"

    run(test)


def test_when_tokens_cannot_be_looked_up_the_answer_is_503() -> None:
    async def test(world: World) -> None:
        world.store.failure = StoreUnavailableError("The database cannot be read: disk I/O error")
        answer = await world.post()
        assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
        assert answer.headers["Retry-After"] == "1"
        world.store.failure = None
        assert (await world.post()).status_code == 200

    run(test)


@pytest.mark.parametrize(
    "media_type",
    [
        "application/json",
        "Application/JSON",
        "application/json; charset=utf-8",
        'application/json;charset="UTF-8"',
        "application/json ;\tCharset=utf-8",
    ],
)
def test_json_is_taken_in_any_spelling(media_type: str) -> None:
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
        {"Content-Type": "application/x-www-form-urlencoded"},
        {"Content-Type": "application/json", "Content-Encoding": "gzip"},
        {"Content-Type": "application/json", "Content-Encoding": "identity"},
    ],
)
def test_any_other_media_type_and_any_coding_is_415(headers: dict[str, str]) -> None:
    async def test(world: World) -> None:
        bearer = {"Authorization": f"Bearer {world.token}"}
        answer = await world.post(headers=headers | bearer)
        assert_error(answer, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
        assert answer.headers["Accept"] == "application/json"
        assert answer.headers["Accept-Encoding"] == "identity"

    run(test)


@pytest.mark.parametrize("chunked", [False, True])
def test_a_body_may_be_as_large_as_the_bound_and_no_larger(chunked: bool) -> None:  # noqa: FBT001
    def padded(size: int) -> Any:
        body = VALID + b" " * (size - len(VALID))
        if not chunked:
            return body

        async def pieces() -> Any:
            for start in range(0, size, 100):
                yield body[start : start + 100]

        return pieces()

    async def test(world: World) -> None:
        assert (await world.post(padded(BODY_BYTES_MAX))).status_code == 200
        too_large = await world.post(padded(BODY_BYTES_MAX + 1))
        assert_error(too_large, 413, ErrorCode.BODY_TOO_LARGE)
        assert str(BODY_BYTES_MAX) in too_large.json()["message"]

    run(test)


def test_an_endless_chunked_body_is_read_no_further_than_the_bound() -> None:
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 100
            yield b" " * 100

    async def test(world: World) -> None:
        assert_error(await world.post(endless()), 413, ErrorCode.BODY_TOO_LARGE)
        assert read <= BODY_BYTES_MAX + 200

    run(test)


def test_a_full_queue_is_answered_with_503_and_when_to_come_again() -> None:
    async def test(world: World) -> None:
        answer = await world.post()
        assert_error(answer, 503, ErrorCode.OVERLOADED)
        assert 1 <= int(answer.headers["Retry-After"]) <= 5
        assert answer.headers["X-Request-Id"]

    assert not run(test, World(queue_plants_max=0)).store.plants


def test_what_nobody_foresaw_is_answered_with_a_fixed_message_and_told_to_the_observer() -> None:
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


def test_too_little_memory_is_answered_with_503() -> None:
    async def test(world: World) -> None:
        world.store.failure = MemoryError()
        answer = await world.post()
        assert_error(answer, 503, ErrorCode.OVERLOADED)
        assert int(answer.headers["Retry-After"]) in range(1, 6)

    assert not run(test).told(RequestFailed)


def test_other_paths_and_methods_are_404_and_405_with_an_error_record() -> None:
    async def test(world: World) -> None:
        for path in ("/", "/Plants", "/plants/1/", "/plants/1/2", "/x" * 1000):
            assert_error(await world.client.get(path), 404, ErrorCode.NOT_FOUND)
        for path in ("//plants", "//plants/1", "//healthz", "///"):
            answer = await world.send("GET", f"http://plants.test{path}")
            assert_error(answer, 404, ErrorCode.NOT_FOUND)
        for path, method, allowed in (
            *(("/plants", method, "GET, HEAD, POST") for method in ("PUT", "DELETE", "PATCH")),
            *(("/plants/1", method, "DELETE, GET, HEAD, PUT") for method in ("POST", "PATCH")),
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
