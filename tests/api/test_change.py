"""PUT and DELETE /plants/{id}, tested without a socket: every status, and when it is sent."""

import asyncio

import pytest

from plantstore.errors import ErrorCode
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from plantstore.store import Store
from support.world import World, assert_error, run

FIR = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.mark.parametrize(
    ("body", "after", "answered"),
    [
        (b'{"name": "a", "tag": "b"}', NewPlant(1, "a", "b"), {"name": "a", "tag": "b"}),
        (b'{"name": "a"}', NewPlant(1, "a"), {"name": "a"}),
        (b'{"name": "", "tag": ""}', NewPlant(1, "", ""), {"name": "", "tag": ""}),
        (b'{"id": 9, "name": "a", "x": null}', NewPlant(1, "a"), {"name": "a"}),
    ],
)
def test_a_plant_is_replaced_as_a_whole_and_an_absent_tag_removes_it(
    store: Store, body: bytes, after: NewPlant, answered: dict[str, str]
) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        for _ in range(2):  # the second time as a retry of a client that got no response
            answer = await world.send("PUT", "/plants/1", body)
            assert (answer.status_code, answer.json()) == (200, answered)

    assert run(test, World(store)).store.plants == {1: after}


def test_a_replace_of_a_missing_plant_is_404_and_creates_nothing() -> None:
    async def test(world: World) -> None:
        answer = await world.send("PUT", "/plants/1", b'{"name": "a"}')
        assert_error(answer, 404, ErrorCode.NO_SUCH_PLANT)

    assert not run(test).store.plants


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        (b"", 400, ErrorCode.NOT_JSON),
        (b"[]", 400, ErrorCode.INVALID_PLANT),
        (b'{"tag": "a"}', 400, ErrorCode.INVALID_PLANT),
        (b'{"name": null}', 400, ErrorCode.INVALID_PLANT),
        (b'{"name": "a", "tag": null}', 400, ErrorCode.INVALID_PLANT),
        (b'{"name": "\\u0000"}', 400, ErrorCode.UNSTORABLE_TEXT),
        (b'{"name": "a", "tag": "\\u0000"}', 400, ErrorCode.UNSTORABLE_TEXT),
        (b'{"name": "\\ud800"}', 400, ErrorCode.UNSTORABLE_TEXT),
        (b'{"name": "\xff"}', 400, ErrorCode.NOT_JSON),
        (b" " * (PLANT_BYTES_MAX + 1), 413, ErrorCode.BODY_TOO_LARGE),
    ],
)
def test_an_invalid_body_is_refused_and_replaces_nothing(
    body: bytes, status: int, code: ErrorCode
) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        assert_error(await world.send("PUT", "/plants/1", body), status, code)

    assert run(test).store.plants == {1: FIR}


def test_a_body_that_is_not_json_is_415() -> None:
    async def test(world: World) -> None:
        headers = {"Authorization": f"Bearer {world.token}", "Content-Type": "text/plain"}
        answer = await world.client.put("/plants/1", content=b'{"name": "a"}', headers=headers)
        assert_error(answer, 415, ErrorCode.UNSUPPORTED_MEDIA_TYPE)

    run(test)


def test_a_deleted_plant_is_gone_and_its_id_is_free(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        answer = await world.send("DELETE", "/plants/1")
        assert (answer.status_code, answer.content) == (204, b"")
        assert "Content-Type" not in answer.headers
        assert_error(await world.send("GET", "/plants/1"), 404, ErrorCode.NO_SUCH_PLANT)
        assert_error(await world.send("DELETE", "/plants/1"), 404, ErrorCode.NO_SUCH_PLANT)
        assert (await world.post(b'{"id": 1, "name": "another"}')).status_code == 200

    assert run(test, World(store)).store.plants == {1: NewPlant(1, "another")}


@pytest.mark.parametrize(("method", "scope"), [("PUT", "update"), ("DELETE", "delete")])
def test_each_change_needs_its_own_scope(method: str, scope: str) -> None:
    body = b'{"name": "a"}' if method == "PUT" else None

    async def test(world: World) -> None:
        world.put_in(FIR)
        others = {"plants:create", "plants:read", "plants:update", "plants:delete"}
        without = world.add_token("without", *(others - {f"plants:{scope}"}))
        refused = await world.send(method, "/plants/1", body, token=without)
        assert_error(refused, 403, ErrorCode.SCOPE_MISSING)
        assert f'scope="plants:{scope}"' in refused.headers["WWW-Authenticate"]
        assert world.store.plants == {1: FIR}
        alone = world.add_token("alone", f"plants:{scope}")
        assert (await world.send(method, "/plants/1", body, token=alone)).is_success

    run(test)


def test_concurrent_changes_of_a_plant_are_made_one_after_the_other(store: Store) -> None:
    async def test(world: World) -> None:
        answers = await asyncio.gather(
            world.post(b'{"id": 1, "name": "a"}'),
            world.send("PUT", "/plants/1", b'{"name": "b"}'),
            world.send("DELETE", "/plants/1"),
            world.post(b'{"id": 1, "name": "c"}'),
        )
        assert [answer.status_code for answer in answers] == [200, 200, 204, 200]

    assert run(test, World(store)).store.plants == {1: NewPlant(1, "c")}


def test_a_full_queue_refuses_every_change() -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        for method, body in (("PUT", b'{"name": "a"}'), ("DELETE", None)):
            answer = await world.send(method, "/plants/1", body)
            assert_error(answer, 503, ErrorCode.OVERLOADED)

    assert run(test, World(waiting_changes_max=0)).store.plants == {1: FIR}
