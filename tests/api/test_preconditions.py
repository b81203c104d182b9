"""ETag, If-Match and If-None-Match of one plant, tested without a socket (RFC 9110 §13)."""

import asyncio

import httpx
import pytest

from plantstore.changes import entity_tag
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from plantstore.store import Store
from support.world import World, assert_error, run

FIR = NewPlant(1, "Abies", "fir")
ETAG = entity_tag("Abies", "fir")
OTHER = entity_tag("Abies", None)
B = b'{"name": "b"}'
CHANGES = [("PUT", B), ("PATCH", B), ("DELETE", None)]


def assert_failed(answer: httpx.Response, etag: str | None) -> None:
    assert_error(answer, 412, ErrorCode.PRECONDITION_FAILED)
    assert answer.headers.get("ETag") == etag


@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_a_plant_has_an_etag_and_is_not_sent_again_to_who_has_it(method: str) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        answer = await world.send(method, "/plants/1")
        assert (answer.status_code, answer.headers["ETag"]) == (200, ETAG)
        for tags in ("*", ETAG, f"W/{ETAG}", f'"x", {ETAG}'):
            same = await world.send(method, "/plants/1", fields={"If-None-Match": tags})
            assert (same.status_code, same.content) == (304, b"")
            assert same.headers["ETag"] == ETAG
            assert "Content-Type" not in same.headers
        other = await world.send(method, "/plants/1", fields={"If-None-Match": OTHER})
        assert (other.status_code, other.headers) == (200, answer.headers)

    run(test)


def test_a_read_with_if_match_is_412_if_the_plant_differs_and_404_if_there_is_none() -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        for tags, status in (("*", 200), (ETAG, 200), (f"{OTHER}, {ETAG}", 200)):
            answer = await world.send("GET", "/plants/1", fields={"If-Match": tags})
            assert answer.status_code == status
        for tags in (OTHER, f"W/{ETAG}"):
            assert_failed(await world.send("GET", "/plants/1", fields={"If-Match": tags}), ETAG)
        missing = await world.send("GET", "/plants/2", fields={"If-Match": "*"})
        assert_error(missing, 404, ErrorCode.NO_SUCH_PLANT)

    run(test)


@pytest.mark.parametrize(("method", "body"), CHANGES)
def test_a_change_is_made_if_the_plant_is_the_expected_one(
    store: Store, method: str, body: bytes | None
) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        for fields in (
            *({"If-Match": tags} for tags in (OTHER, f"W/{ETAG}", f'{OTHER}, "x"')),
            *({"If-None-Match": tags} for tags in (f'"x", W/{ETAG}', ETAG)),
            {"If-Match": ETAG, "If-None-Match": ETAG},
        ):
            assert_failed(await world.send(method, "/plants/1", body, fields=fields), ETAG)
        assert world.store.plants == {1: FIR}
        fields = {"If-Match": f"{OTHER}, {ETAG}", "If-None-Match": OTHER}
        assert (await world.send(method, "/plants/1", body, fields=fields)).is_success

    assert run(test, World(store)).store.plants != {1: FIR}


@pytest.mark.parametrize(("method", "body"), CHANGES)
def test_a_change_of_a_missing_plant_is_412_with_if_match_and_404_without(
    method: str, body: bytes | None
) -> None:
    async def test(world: World) -> None:
        for tags in ("*", ETAG):
            assert_failed(
                await world.send(method, "/plants/1", body, fields={"If-Match": tags}), None
            )
        fields = {"If-None-Match": ETAG}
        for answer in (
            await world.send(method, "/plants/1", body),
            await world.send(method, "/plants/1", body, fields=fields),
        ):
            assert_error(answer, 404, ErrorCode.NO_SUCH_PLANT)

    assert not run(test).store.plants


@pytest.mark.parametrize("method", ["PUT", "PATCH"])
def test_a_change_that_is_repeated_after_a_lost_response_succeeds_again(method: str) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        body = b'{"name": "b", "tag": "t"}'
        for _ in range(2):
            answer = await world.send(method, "/plants/1", body, fields={"If-Match": ETAG})
            assert (answer.status_code, answer.json()) == (200, {"name": "b", "tag": "t"})
            assert answer.headers["ETag"] == entity_tag("b", "t")
        lost = await world.send(method, "/plants/1", b'{"name": "c"}', fields={"If-Match": ETAG})
        assert_failed(lost, entity_tag("b", "t"))

    run(test)


def test_a_deletion_that_is_repeated_is_412() -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        fields = {"If-Match": ETAG}
        assert (await world.send("DELETE", "/plants/1", fields=fields)).status_code == 204
        assert_failed(await world.send("DELETE", "/plants/1", fields=fields), None)

    run(test)


def test_of_two_changes_that_expect_the_same_plant_one_is_made(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        one, another = await asyncio.gather(
            *(
                world.send("PUT", "/plants/1", b'{"name": "%d"}' % n, fields={"If-Match": ETAG})
                for n in range(2)
            )
        )
        assert one.status_code == 200
        assert_failed(another, one.headers["ETag"])

    assert run(test, World(store)).store.plants == {1: NewPlant(1, "0")}


def test_put_with_if_none_match_any_creates_a_plant_and_never_replaces_one(store: Store) -> None:
    async def test(world: World) -> None:
        fields = {"If-None-Match": "*"}
        answers = await asyncio.gather(
            *(world.send("PUT", "/plants/-7", body, fields=fields) for body in (B, B, b"{}"))
        )
        assert (answers[0].status_code, answers[0].json()) == (201, {"name": "b"})
        assert answers[0].headers["ETag"] == entity_tag("b", None)
        # Also for the same plant: RFC 9110 §13.1.2 has no exception for retries.
        assert_failed(answers[1], entity_tag("b", None))
        assert_error(answers[2], 400, ErrorCode.INVALID_PLANT)

    assert run(test, World(store)).store.plants == {-7: NewPlant(-7, "b")}


def test_put_with_if_none_match_any_needs_the_scope_of_a_create_alone() -> None:
    async def test(world: World) -> None:
        create = world.add_token("create", "plants:create")
        update = world.add_token("update", "plants:update")
        fields = {"If-None-Match": "*"}
        refused = await world.send("PUT", "/plants/1", B, update, fields)
        assert_error(refused, 403, ErrorCode.SCOPE_MISSING)
        assert 'scope="plants:create"' in refused.headers["WWW-Authenticate"]
        assert (await world.send("PUT", "/plants/1", B, create, fields)).status_code == 201
        for other in (None, {"If-None-Match": '"*"'}, {"If-Match": "*"}):
            answer = await world.send("PUT", "/plants/1", B, create, other)
            assert_error(answer, 403, ErrorCode.SCOPE_MISSING)

    run(test)


@pytest.mark.parametrize(("method", "body"), [("GET", None), ("HEAD", None), *CHANGES])
@pytest.mark.parametrize("name", ["If-Match", "If-None-Match"])
def test_a_malformed_field_is_400_and_nothing_is_done(
    method: str, body: bytes | None, name: str
) -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        for value in ("", "fir", f"*, {ETAG}", ETAG[:-1]):
            answer = await world.send(method, "/plants/1", body, fields={name: value})
            assert answer.status_code == 400
            assert method == "HEAD" or answer.json()["error"] == ErrorCode.BAD_REQUEST

    assert run(test).store.plants == {1: FIR}


def test_several_lines_of_a_field_are_one_list() -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        bearer = ("Authorization", f"Bearer {world.token}")
        for name, status in (("If-Match", 200), ("If-None-Match", 304)):
            headers = [bearer, (name, OTHER), (name, ETAG), (name, '"x"')]
            assert (await world.client.get("/plants/1", headers=headers)).status_code == status
        headers = [bearer, ("If-Match", "*"), ("If-Match", "*")]
        assert (await world.client.get("/plants/1", headers=headers)).status_code == 400

    run(test)


def test_the_etag_can_be_computed_from_a_listing_and_returns_with_the_old_values() -> None:
    async def test(world: World) -> None:
        world.put_in(FIR)
        [listed] = (await world.send("GET", "/plants")).json()
        await world.send("PUT", "/plants/1", B)
        again = await world.send("PUT", "/plants/1", b'{"name": "Abies", "tag": "fir"}')
        assert again.headers["ETag"] == entity_tag(listed["name"], listed["tag"]) == ETAG

    run(test)
