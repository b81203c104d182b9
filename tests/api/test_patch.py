"""PATCH /plants/{id} with a JSON merge patch (RFC 7396), tested without a socket."""

import asyncio

import pytest

from plantstore.changes import entity_tag
from plantstore.errors import ErrorCode
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from plantstore.store import Store
from support.world import World, assert_error, run

FIR = NewPlant(1, "Abies", "fir")


@pytest.mark.parametrize(
    ("patch", "after"),
    [
        (b"{}", FIR),
        (b'{"name": "a"}', NewPlant(1, "a", "fir")),
        (b'{"tag": "a"}', NewPlant(1, "Abies", "a")),
        (b'{"tag": ""}', NewPlant(1, "Abies", "")),
        (b'{"tag": null}', NewPlant(1, "Abies")),
        (b'{"name": "", "tag": null}', NewPlant(1, "")),
        (b'{"id": 9, "x": {"y": null}, "tag": "a"}', NewPlant(1, "Abies", "a")),
    ],
)
def test_a_patch_changes_its_members_and_null_removes_the_tag(
    store: Store, patch: bytes, after: NewPlant
) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        for _ in range(2):  # the second time as a retry of a client that got no response
            answer = await world.send("PATCH", "/plants/1", patch)
            tagged = {} if after.tag is None else {"tag": after.tag}
            assert (answer.status_code, answer.json()) == (200, {"name": after.name} | tagged)
            assert answer.headers["ETag"] == entity_tag(after.name, after.tag)

    assert run(test, World(store)).store.plants == {1: after}


@pytest.mark.parametrize(
    ("patch", "code"),
    [
        (b"", ErrorCode.NOT_JSON),
        (b'{"tag": "a"', ErrorCode.NOT_JSON),
        (b'{"name": "\xff"}', ErrorCode.NOT_JSON),
        (b'{"name": null}', ErrorCode.INVALID_PLANT),
        (b'{"name": 1}', ErrorCode.INVALID_PLANT),
        (b'{"tag": {"a": null}}', ErrorCode.INVALID_PLANT),
        (b"[]", ErrorCode.INVALID_PLANT),
        (b"null", ErrorCode.INVALID_PLANT),
        (b'"a"', ErrorCode.INVALID_PLANT),
        (b'{"name": "\\u0000"}', ErrorCode.UNSTORABLE_TEXT),
        (b'{"tag": "\\u0000"}', ErrorCode.UNSTORABLE_TEXT),
        (b'{"tag": "\\ud800"}', ErrorCode.UNSTORABLE_TEXT),
    ],
)
def test_an_invalid_patch_is_400_and_changes_nothing(patch: bytes, code: ErrorCode) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        answer = await world.send("PATCH", "/plants/1", patch)
        assert_error(answer, 400, code)

    assert run(test).store.plants == {1: FIR}


def test_the_message_about_an_invalid_member_says_what_is_allowed() -> None:
    async def test(world: World) -> None:
        answer = await world.send("PATCH", "/plants/1", b'{"tag": 1}')
        assert answer.json()["message"] == "`tag` must be a string or null, got a number"

    run(test)


def test_a_patch_of_a_missing_plant_is_404_and_creates_nothing() -> None:
    async def test(world: World) -> None:
        answer = await world.send("PATCH", "/plants/1", b'{"name": "a"}')
        assert_error(answer, 404, ErrorCode.NO_SUCH_PLANT)

    assert not run(test).store.plants


def test_a_patch_that_is_too_large_is_413() -> None:
    async def test(world: World) -> None:
        answer = await world.send("PATCH", "/plants/1", b" " * (PLANT_BYTES_MAX + 1))
        assert_error(answer, 413, ErrorCode.BODY_TOO_LARGE)

    run(test)


def test_a_patch_that_would_make_too_large_a_plant_is_413_and_changes_nothing() -> None:
    large = NewPlant(1, "x" * 40_000)

    async def test(world: World) -> None:
        world.put_in(large)
        tag = b'{"tag": "%b"}'
        answer = await world.send("PATCH", "/plants/1", tag % (b"x" * 30_000))
        assert_error(answer, 413, ErrorCode.BODY_TOO_LARGE)
        assert (await world.send("PATCH", "/plants/1", tag % (b"x" * 20_000))).status_code == 200

    assert run(test).store.plants == {1: NewPlant(1, large.name, "x" * 20_000)}


@pytest.mark.parametrize(
    "media_type", ["application/json", "application/json-patch+json", "text/plain", ""]
)
def test_another_media_type_is_415_and_the_response_names_that_of_patches(media_type: str) -> None:
    async def test(world: World) -> None:
        fields = {"Content-Type": media_type}
        answer = await world.send("PATCH", "/plants/1", b"{}", fields=fields)
        assert_error(answer, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
        assert answer.headers["Accept-Patch"] == "application/merge-patch+json"
        assert answer.headers["Accept"] == "application/merge-patch+json"

    run(test)


def test_a_patch_may_name_its_charset_and_is_no_body_of_a_put() -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        fields = {"Content-Type": "Application/Merge-Patch+JSON; charset=UTF-8"}
        assert (await world.send("PATCH", "/plants/1", b"{}", fields=fields)).status_code == 200
        put = await world.send("PUT", "/plants/1", b'{"name": "a"}', fields=fields)
        assert_error(put, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)
        assert "Accept-Patch" not in put.headers

    run(test)


def test_a_patch_needs_the_scope_of_an_update() -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        others = world.add_token("others", "plants:create", "plants:read", "plants:delete")
        refused = await world.send("PATCH", "/plants/1", b'{"name": "a"}', others)
        assert_error(refused, 403, ErrorCode.SCOPE_MISSING)
        assert world.store.plants == {1: FIR}
        alone = world.add_token("alone", "plants:update")
        assert (await world.send("PATCH", "/plants/1", b'{"name": "a"}', alone)).is_success

    run(test)


def test_concurrent_patches_of_different_members_both_hold(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        answers = await asyncio.gather(
            world.send("PATCH", "/plants/1", b'{"name": "a"}'),
            world.send("PATCH", "/plants/1", b'{"tag": null}'),
        )
        assert [answer.json() for answer in answers] == [
            {"name": "a", "tag": "fir"},
            {"name": "a"},
        ]

    assert run(test, World(store)).store.plants == {1: NewPlant(1, "a")}
