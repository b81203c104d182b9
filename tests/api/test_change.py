"""Changes of one plant: bodies, and conditions (RFC 9110 §13)."""

from typing import Any

import httpx
import pytest

from plantstore.api.error_responses import STATUS
from plantstore.changes import entity_tag
from plantstore.errors import ErrorCode
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.world import JSON, VALID, World, assert_error

FIR = NewPlant(1, "Abies", "fir")
ETAG = entity_tag("Abies", "fir")
OTHER = entity_tag("Abies", None)
B = b'{"name": "b"}'
CHANGES = [("PUT", B), ("PATCH", B), ("DELETE", None)]
MERGE_PATCH = "application/merge-patch+json"
PATCHES = f"{MERGE_PATCH}, application/json"
FILLING = b"x" * (PLANT_BYTES_MAX - 11)


@pytest.fixture
def planted(world: World) -> World:
    """Return an application that has FIR."""
    world.put_in(FIR)
    return world


def assert_failed(answer: httpx.Response, etag: str | None, said: str) -> None:
    assert_error(answer, 412, ErrorCode.PRECONDITION_FAILED, said)
    assert answer.headers.get("ETag") == etag


@pytest.mark.parametrize(
    ("method", "body", "after"),
    [
        ("PUT", b'{"name": "a", "tag": "b"}', NewPlant(1, "a", "b")),
        ("PUT", b'{"name": "a"}', NewPlant(1, "a")),
        ("PUT", b'{"name": "", "tag": ""}', NewPlant(1, "", "")),
        ("PUT", b'{"id": 9, "name": "a", "x": null}', NewPlant(1, "a")),
        ("PATCH", b"{}", FIR),
        ("PATCH", b'{"name": "a"}', NewPlant(1, "a", "fir")),
        ("PATCH", b'{"tag": ""}', NewPlant(1, "Abies", "")),
        ("PATCH", b'{"name": "", "tag": null}', NewPlant(1, "")),
        ("PATCH", b'{"id": 9, "x": {"y": null}, "tag": "a"}', NewPlant(1, "Abies", "a")),
    ],
)
def test_a_replacement_removes_an_absent_tag_and_a_patch_one_that_is_null(
    world: World, method: str, body: bytes, after: NewPlant
) -> None:
    world.put_in(FIR)
    token = world.add_token("updates", "plants:update")
    tagged = {} if after.tag is None else {"tag": after.tag}

    for _ in range(2):  # the second time as a retry of a client that got no response
        answer = world.send(method, "/plants/1", body, token=token)

        assert (answer.status_code, answer.json()) == (200, {"name": after.name} | tagged)
        assert answer.headers["ETag"] == entity_tag(after.name, after.tag)
    assert world.store.plants == {1: after}


@pytest.mark.parametrize(
    ("method", "body", "code", "said"),
    [
        ("PUT", b"", ErrorCode.NOT_JSON, ""),
        ("PUT", b'{"name": "\\u0000"}', ErrorCode.UNSTORABLE_TEXT, "`name`"),
        ("PUT", b" " * (PLANT_BYTES_MAX + 1), ErrorCode.BODY_TOO_LARGE, ""),
        ("PATCH", b'{"tag": 1}', ErrorCode.INVALID_PLANT, "a string or null, got a number"),
        ("PATCH", b'{"tag": "\\ud800"}', ErrorCode.UNSTORABLE_TEXT, ""),
        ("PATCH", b" " * (PLANT_BYTES_MAX + 1), ErrorCode.BODY_TOO_LARGE, ""),
        # With its id, the plant would be too large.
        ("PUT", b'{"name":"%b"}' % FILLING, ErrorCode.BODY_TOO_LARGE, ""),
        ("PATCH", b'{"tag":"%b"}' % FILLING, ErrorCode.BODY_TOO_LARGE, ""),
    ],
)
def test_an_invalid_body_changes_nothing(
    planted: World, method: str, body: bytes, code: ErrorCode, said: str
) -> None:
    assert_error(planted.send(method, "/plants/1", body), STATUS[code], code, said)

    assert planted.store.plants == {1: FIR}


@pytest.mark.parametrize(
    ("method", "media_type", "wanted"),
    [
        *(("PUT", each, "application/json") for each in ("text/plain", MERGE_PATCH)),
        *(("PATCH", each, PATCHES) for each in ("text/plain", "")),
        ("PATCH", "application/json-patch+json", PATCHES),
    ],
)
def test_the_refusal_of_a_media_type_names_the_right_one(
    world: World, method: str, media_type: str, wanted: str
) -> None:
    answer = world.send(method, "/plants/1", B, fields={"Content-Type": media_type})

    assert_error(answer, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE, wanted.replace(", ", " or "))
    assert answer.headers["Accept"] == wanted
    assert answer.headers.get("Accept-Patch") == (MERGE_PATCH if method == "PATCH" else None)


@pytest.mark.parametrize("media_type", [MERGE_PATCH.title(), "application/json"])
def test_a_patch_may_be_json_and_may_name_its_charset(planted: World, media_type: str) -> None:
    fields = {"Content-Type": f"{media_type}; charset=UTF-8"}

    answer = planted.send("PATCH", "/plants/1", b'{"tag": null}', fields=fields)

    assert (answer.status_code, answer.json()) == (200, {"name": "Abies"})


@pytest.mark.parametrize(
    ("fields", "status"),
    [
        *(({"If-None-Match": tags}, 304) for tags in ("*", ETAG, f"W/{ETAG}", f'"x", {ETAG}')),
        *(({"If-None-Match": tags}, 200) for tags in (OTHER, "")),
        *(({"If-Match": tags}, 200) for tags in ("*", ETAG, f"W/{ETAG}", f"{OTHER}, {ETAG}")),
        *(({"If-Match": tags}, 412) for tags in (OTHER, "")),
    ],
)
def test_a_plant_is_read_if_the_conditions_hold(
    planted: World, fields: dict[str, str], status: int
) -> None:
    head, get = (planted.send(each, "/plants/1", fields=fields) for each in ("HEAD", "GET"))

    assert (head.status_code, head.headers) == (get.status_code, get.headers)
    assert (get.status_code, get.headers["ETag"]) == (status, ETAG)
    assert status != 304 or get.content == b""
    assert ("Content-Type" in get.headers) is (status != 304)
    missing = planted.send("GET", "/plants/2", fields=fields)
    assert_error(missing, 404, ErrorCode.NO_SUCH_PLANT)


@pytest.mark.parametrize(("method", "body"), CHANGES)
def test_a_change_is_made_if_the_plant_is_the_expected_one(
    planted: World, method: str, body: bytes | None
) -> None:
    for fields, said in (
        ({"If-Match": OTHER}, "the plant under the id 1 is not the expected one"),
        ({"If-Match": ""}, "the plant under the id 1 is not the expected one"),
        ({"If-None-Match": ETAG}, "a plant is stored under the id 1, and If-None-Match excludes"),
    ):
        assert_failed(planted.send(method, "/plants/1", body, fields=fields), ETAG, said)
    assert planted.store.plants == {1: FIR}
    fields = {"If-Match": ETAG, "If-None-Match": f"{OTHER},"}
    assert planted.send(method, "/plants/1", body, fields=fields).is_success
    assert planted.store.plants != {1: FIR}


@pytest.mark.parametrize(("method", "body"), CHANGES)
def test_a_change_of_a_missing_plant_is_412_with_if_match_and_404_without(
    world: World, method: str, body: bytes | None
) -> None:
    for tags in ("*", ETAG):
        answer = world.send(method, "/plants/1", body, fields={"If-Match": tags})
        assert_failed(answer, None, "no plant is stored under the id 1")
    for fields in ({}, {"If-None-Match": ETAG}):
        answer = world.send(method, "/plants/1", body, fields=fields)
        assert_error(answer, 404, ErrorCode.NO_SUCH_PLANT)
    assert not world.store.plants


def test_put_with_if_none_match_any_never_replaces_a_plant(world: World) -> None:
    fields = {"If-None-Match": "*"}

    created, again, invalid = world.send_together(
        *(("PUT", "/plants/-7", body, None, fields) for body in (B, B, b"{}"))
    )

    assert (created.status_code, created.json()) == (201, {"name": "b"})
    assert created.headers["ETag"] == entity_tag("b", None)
    # Also for the same plant: RFC 9110 §13.1.2 has no exception for retries.
    said = "a plant is stored under the id -7, and If-None-Match excludes it"
    assert_failed(again, entity_tag("b", None), said)
    assert_error(invalid, 400, ErrorCode.INVALID_PLANT)
    assert world.store.plants == {-7: NewPlant(-7, "b")}


# Creates.


def test_a_repeated_create_gets_the_same_response_and_a_different_plant_is_refused(
    world: World,
) -> None:
    first, again, other = (
        world.post(body) for body in (VALID, VALID, b'{"id": 1, "name": "other"}')
    )

    assert first.content == b'{"name":"Abies balsamea (L.) Mill.","tag":"Abies"}'
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
    unchanged: World, fields: dict[str, str]
) -> None:
    bearer = {"Authorization": f"Bearer {unchanged.token}"}

    answer = unchanged.ask("POST", "/plants", content=VALID, headers=bearer | fields)

    assert_error(answer, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
    assert answer.headers["Accept"] == "application/json"
    assert answer.headers["Accept-Encoding"] == "identity"


@pytest.mark.parametrize(("method", "path"), [("POST", "/plants"), ("DELETE", "/plants/1")])
def test_a_body_has_at_most_16_kib(world: World, method: str, path: str) -> None:
    world.put_in(NewPlant(1, "Abies balsamea (L.) Mill.", "Abies"))
    bodies = (VALID.ljust(PLANT_BYTES_MAX + more) for more in (1, 0))
    too_large, fits = (world.send(method, path, body) for body in bodies)

    assert fits.status_code in (200, 204)
    assert_error(too_large, 413, ErrorCode.BODY_TOO_LARGE, str(PLANT_BYTES_MAX))


@pytest.mark.parametrize(("method", "path"), [("POST", "/plants"), ("DELETE", "/plants/1")])
def test_an_endless_chunked_body_is_read_only_up_to_the_limit(
    world: World, method: str, path: str
) -> None:
    read = 0

    async def endless() -> Any:
        nonlocal read
        while True:
            read += 100
            yield b" " * 100

    assert_error(world.send(method, path, endless()), 413, ErrorCode.BODY_TOO_LARGE)
    assert read <= PLANT_BYTES_MAX + 200
