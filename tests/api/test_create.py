"""POST /plants: every status, and when it is sent."""

from typing import Any

import pytest

from plantstore.errors import ErrorCode
from plantstore.observe import RequestFailed
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.world import JSON, VALID, World, assert_error


@pytest.mark.parametrize(
    ("body", "plant", "answered"),
    [
        (
            VALID,
            NewPlant(1, "Abies balsamea (L.) Mill.", "Abies"),
            b'{"name":"Abies balsamea (L.) Mill.","tag":"Abies"}',
        ),
        (b'{"id":-7.0,"name":""}', NewPlant(-7, ""), b'{"name":""}'),
        (b'{"id":1e3,"name":"x","tag":""}', NewPlant(1000, "x", ""), b'{"name":"x","tag":""}'),
    ],
)
def test_a_stored_plant_is_returned_without_its_id(
    world: World, body: bytes, plant: NewPlant, answered: bytes
) -> None:
    answer = world.post(body)

    assert (answer.status_code, answer.content) == (200, answered)
    assert answer.headers["Content-Type"] == "application/json"
    assert world.store.plants == {plant.id: plant}


def test_a_repeated_create_gets_the_same_response_and_a_different_plant_is_refused(
    world: World,
) -> None:
    first, again, other = (
        world.post(body) for body in (VALID, VALID, b'{"id": 1, "name": "other"}')
    )

    assert (again.status_code, again.content) == (200, first.content)
    said = "`id` is taken: another plant is stored under the id 1"
    assert_error(other, 400, ErrorCode.ID_TAKEN, said)
    assert [plant.tag for plant in world.store.plants.values()] == ["Abies"]


@pytest.mark.parametrize(
    "media_type",
    [
        "Application/JSON",
        'application/json;charset="UTF-8"',
        "application/json ;\tCharset=utf-8",
        "application/json ; ",
        'application/json; charset="UTF8";',
        "application/json;;charset=utf8",
    ],
)
def test_the_json_media_type_is_accepted_in_every_spelling(world: World, media_type: str) -> None:
    assert world.post(fields={"Content-Type": media_type}).status_code == 200


@pytest.mark.parametrize(
    "fields",
    [
        {},
        *({"Content-Type": each} for each in ("", "text/json", "application/jsonx")),
        {"Content-Type": "application/json; charset=latin-1"},
        {"Content-Type": "application/json; charset=utf-8; x=y"},
        {"Content-Type": "application/json charset=utf-8"},
        {"Content-Type": "application/json; charset="},
        {"Content-Type": "application/json; charset=utf8; charset=utf-16"},
        {"Content-Type": "application/json" + "; " * 10_000 + "x"},
        *({"Content-Encoding": coding} | JSON for coding in ("gzip", "identity")),
    ],
)
def test_any_other_media_type_and_any_content_coding_is_415(
    world: World, fields: dict[str, str]
) -> None:
    bearer = {"Authorization": f"Bearer {world.token}"}

    answer = world.ask("POST", "/plants", content=VALID, headers=bearer | fields)

    assert_error(answer, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    assert answer.headers["Accept"] == "application/json"
    assert answer.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize("is_chunked", [False, True])
def test_a_body_has_at_most_16_kib(world: World, *, is_chunked: bool) -> None:
    def padded(size: int) -> Any:
        body = VALID + b" " * (size - len(VALID))
        return pieces(body) if is_chunked else body

    async def pieces(body: bytes) -> Any:
        for start in range(0, len(body), 10_000):
            yield body[start : start + 10_000]

    fits, too_large = (world.post(padded(PLANT_BYTES_MAX + more)) for more in (0, 1))

    assert fits.status_code == 200
    assert_error(too_large, 413, ErrorCode.BODY_TOO_LARGE, str(PLANT_BYTES_MAX))


def test_an_endless_chunked_body_is_read_only_up_to_the_limit(world: World) -> None:
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 100
            yield b" " * 100

    assert_error(world.post(endless()), 413, ErrorCode.BODY_TOO_LARGE)
    assert read <= PLANT_BYTES_MAX + 200


def test_an_unexpected_error_is_500_with_a_fixed_message_and_is_reported(world: World) -> None:
    error = ZeroDivisionError("a secret of the inside")
    world.store.fail(error, "find_token")

    answer = world.post()

    assert_error(answer, 500, ErrorCode.INTERNAL)
    assert "secret" not in answer.text
    [failed] = world.told(RequestFailed)
    assert (failed.error, failed.method, failed.path) == (error, "POST", "/plants")
    assert failed.request_id == answer.headers["X-Request-Id"]
