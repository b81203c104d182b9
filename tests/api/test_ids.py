"""Ids from the service: `POST /ids`."""

import asyncio
import threading
from typing import Any

import pytest

from plantstore.api.ids import WAITING_MAX
from plantstore.errors import ErrorCode, StoreUnavailableError, StoreUnreachableError
from plantstore.observe import CommitFailed
from plantstore.plants import ID_MAX, NewPlant
from plantstore.store import Store
from support.fake_store import FakeStore
from support.world import World, assert_error, run


class HeldStore(FakeStore):
    """A store that hands out no ids until `held` is set, and then fails with `failure` if set."""

    def __init__(self) -> None:
        super().__init__()
        self.held = threading.Event()
        self.failure: Exception | None = None
        self.calls: list[int] = []

    def hand_out_ids(self, count: int) -> range:
        self.calls.append(count)
        assert self.held.wait(30)
        if self.failure is not None:
            raise self.failure
        return super().hand_out_ids(count)


async def until(condition: Any) -> None:
    """Let other tasks and threads run until a condition holds."""
    while not condition():  # noqa: ASYNC110 (a condition of another thread)
        await asyncio.sleep(0)


def test_a_plant_can_be_created_under_an_id_from_the_service(store: Store) -> None:
    async def test(world: World) -> None:
        world.put_in(NewPlant(27_123, "a"))

        one = await world.send("POST", "/ids")
        many = await world.send("POST", "/ids?count=1000")

        assert (one.status_code, one.json()) == (200, {"first": 27_124, "last": 27_124})
        assert (many.status_code, many.json()) == (200, {"first": 27_125, "last": 28_124})
        assert one.headers["Content-Type"] == "application/json"
        assert (await world.post(b'{"id": 27124, "name": "b"}')).status_code == 200

    run(test, World(store))


def test_an_id_that_was_handed_out_is_not_reserved() -> None:
    async def test(world: World) -> None:
        assert (await world.send("POST", "/ids")).json() == {"first": 1, "last": 1}

        assert (await world.post(b'{"id": 1, "name": "of another client"}')).status_code == 200

        mine = await world.post(b'{"id": 1, "name": "mine"}')
        assert_error(mine, 400, ErrorCode.ID_TAKEN)

    run(test)


@pytest.mark.parametrize("query", ["count=0", "count=1001", "count=-1", "count=", "count=x", "x=1"])
def test_a_count_that_is_not_from_1_to_1000_is_refused_and_no_id_is_lost(query: str) -> None:
    async def test(world: World) -> None:
        answer = await world.send("POST", f"/ids?{query}")
        assert_error(answer, 400, ErrorCode.INVALID_PARAMETER)
        assert (await world.send("POST", "/ids")).json() == {"first": 1, "last": 1}

    run(test)


def test_ids_need_the_scope_plants_create_and_each_request_is_a_use_of_the_token() -> None:
    async def test(world: World) -> None:
        assert_error(await world.client.post("/ids"), 401, ErrorCode.TOKEN_MISSING)
        reader = world.add_token("reader", "plants:read", "plants:update")
        assert_error(await world.send("POST", "/ids", token=reader), 403, ErrorCode.SCOPE_MISSING)
        creator = world.add_token("creator", "plants:create")
        assert (await world.send("POST", "/ids?count=7", token=creator)).status_code == 200
        answer = await world.send("POST", "/ids", token=creator)
        assert_error(answer, 429, ErrorCode.RATE_EXCEEDED)

    run(test, World(rate_per_token="1/hour"))


def test_a_body_is_ignored_and_other_methods_are_refused() -> None:
    async def test(world: World) -> None:
        assert (await world.send("POST", "/ids", b'{"count": 5}')).json() == {"first": 1, "last": 1}
        for method in ("GET", "HEAD", "PUT", "DELETE"):
            answer = await world.send(method, "/ids")
            assert answer.status_code == 405
            assert set(answer.headers["Allow"].split(", ")) == {"POST", "OPTIONS"}

    run(test)


def test_requests_that_wait_share_one_commit_and_get_different_ids() -> None:
    store = HeldStore()

    async def test(world: World) -> None:
        first = asyncio.ensure_future(world.send("POST", "/ids"))
        await until(lambda: store.calls)
        others = [
            asyncio.ensure_future(world.send("POST", f"/ids?count={n}")) for n in range(1, 11)
        ]
        await until(lambda: world.parts.ids.waiting == 11)
        store.held.set()

        ranges = [(await each).json() for each in (first, *others)]

        ids = [id_ for each in ranges for id_ in range(each["first"], each["last"] + 1)]
        assert sorted(ids) == list(range(1, 57))
        assert [each["last"] - each["first"] + 1 for each in ranges[1:]] == list(range(1, 11))
        assert store.calls == [1, 55]

    run(test, World(store))


def test_if_too_few_ids_are_left_for_all_requests_those_that_fit_get_theirs() -> None:
    store = HeldStore()

    async def test(world: World) -> None:
        world.put_in(NewPlant(ID_MAX - 6, "a"))
        asked = [asyncio.ensure_future(world.send("POST", "/ids"))]
        await until(lambda: store.calls)
        asked += [
            asyncio.ensure_future(world.send("POST", f"/ids?count={n}")) for n in (2, 1000, 3)
        ]
        await until(lambda: world.parts.ids.waiting == 4)
        store.held.set()

        answers = [await each for each in asked]

        assert [each.status_code for each in answers] == [200, 200, 409, 200]
        assert_error(answers[2], 409, ErrorCode.IDS_EXHAUSTED)
        assert {each.json()["last"] for each in answers if each.status_code == 200} == {
            *(ID_MAX - 5, ID_MAX - 3, ID_MAX)
        }
        assert_error(await world.send("POST", "/ids"), 409, ErrorCode.IDS_EXHAUSTED)

    assert not run(test, World(store)).told(CommitFailed)


def test_when_too_many_requests_wait_for_ids_a_further_one_is_503() -> None:
    store = HeldStore()

    async def test(world: World) -> None:
        asked = [asyncio.ensure_future(world.send("POST", "/ids")) for _ in range(WAITING_MAX)]
        await until(lambda: world.parts.ids.waiting == WAITING_MAX)

        answer = await world.send("POST", "/ids")

        assert_error(answer, 503, ErrorCode.OVERLOADED)
        assert "Retry-After" in answer.headers
        assert (await world.send("GET", "/plants")).status_code == 200
        store.held.set()
        assert {(await each).status_code for each in asked} == {200}

    run(test, World(store))


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (
            StoreUnavailableError("The database cannot be written"),
            503,
            "The database cannot be written; sending the request again is safe",
        ),
        (
            StoreUnreachableError("The database cannot be reached"),
            503,
            "The database cannot be reached; no id was handed out",
        ),
        (ZeroDivisionError(), 500, "The ids could not be handed out"),
    ],
)
def test_a_failed_commit_is_reported_and_its_request_can_be_repeated(
    failure: Exception, status: int, message: str
) -> None:
    store = HeldStore()
    store.held.set()

    async def test(world: World) -> None:
        store.failure = failure
        answer = await world.send("POST", "/ids")
        assert (answer.status_code, answer.json()["message"]) == (status, message)
        store.failure = None
        answer = await world.send("POST", "/ids")
        assert answer.json() == {"first": 1, "last": 1}

    assert run(test, World(store)).told(CommitFailed) == [CommitFailed(failure, 1)]
