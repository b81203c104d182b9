"""Ids from the service: `POST /ids`."""

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from plantstore.api.ids import WAITING_MAX
from plantstore.errors import ErrorCode, StoreUnavailableError, StoreUnreachableError
from plantstore.observe import CommitFailed
from plantstore.plants import ID_MAX, NewPlant
from support.stores import MemoryStore
from support.world import World, assert_error, until


class HeldStore(MemoryStore):
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


@pytest.fixture
def store() -> HeldStore:
    return HeldStore()


@pytest.fixture
def held(store: HeldStore, new_world: Callable[..., World]) -> World:
    """Return an application with the held store."""
    world: World = new_world(store)
    return world


def ask(world: World, store: HeldStore, counts: list[int]) -> list[Any]:
    """Ask for an id, and for more while it is handed out; return all responses."""

    async def send() -> list[Any]:
        asked = [asyncio.ensure_future(world.sending("POST", "/ids"))]
        await until(lambda: store.calls)
        asked += [
            asyncio.ensure_future(world.sending("POST", f"/ids?count={count}")) for count in counts
        ]
        await until(lambda: world.parts.ids.batcher.waiting == len(asked))
        store.held.set()
        return [await each for each in asked]

    return world.run(send())


def test_a_plant_can_be_created_under_an_id_from_the_service(world: World) -> None:
    world.put_in(NewPlant(27_123, "a"))

    one, many = (world.send("POST", path) for path in ("/ids", "/ids?count=1000"))

    assert (one.status_code, one.json()) == (200, {"first": 27_124, "last": 27_124})
    assert (many.status_code, many.json()) == (200, {"first": 27_125, "last": 28_124})
    assert world.post(b'{"id": 27124, "name": "b"}').status_code == 200


@pytest.mark.parametrize("query", ["count=0", "count=1001", "count=-1", "count=", "count=x"])
def test_a_count_that_is_not_from_1_to_1000_is_refused_and_no_id_is_lost(
    world: World, query: str
) -> None:
    assert_error(world.send("POST", f"/ids?{query}"), 400, ErrorCode.INVALID_PARAMETER)

    assert world.send("POST", "/ids").json() == {"first": 1, "last": 1}


@pytest.mark.parametrize("body", [b'{"count":5}', b"{}", b"5" * 100_000])
def test_the_refusal_of_a_body_names_the_parameter(world: World, body: bytes) -> None:
    refused = world.send("POST", "/ids", body)
    empty = world.send("POST", "/ids?count=5", b"")

    assert_error(refused, 400, ErrorCode.INVALID_PARAMETER, "?count=")
    assert empty.json() == {"first": 1, "last": 5}


def test_requests_that_wait_for_ids_share_one_commit(held: World, store: HeldStore) -> None:
    ranges = [answer.json() for answer in ask(held, store, list(range(1, 11)))]

    ids = [id_ for each in ranges for id_ in range(each["first"], each["last"] + 1)]
    assert sorted(ids) == list(range(1, 57))
    assert [each["last"] - each["first"] + 1 for each in ranges[1:]] == list(range(1, 11))
    assert store.calls == [1, 55]


def test_if_too_few_ids_are_left_for_all_requests_those_that_fit_get_theirs(
    held: World, store: HeldStore
) -> None:
    held.put_in(NewPlant(ID_MAX - 6, "a"))

    answers = ask(held, store, [2, 1000, 3])

    assert [each.status_code for each in answers] == [200, 200, 400, 200]
    assert_error(answers.pop(2), 400, ErrorCode.IDS_EXHAUSTED)
    assert {each.json()["last"] for each in answers} == {ID_MAX - 5, ID_MAX - 3, ID_MAX}
    assert_error(held.send("POST", "/ids"), 400, ErrorCode.IDS_EXHAUSTED)
    assert not held.told(CommitFailed)


def test_when_too_many_requests_wait_for_ids_a_further_one_is_503(
    held: World, store: HeldStore
) -> None:
    async def send() -> tuple[Any, Any, list[Any]]:
        sending = (held.sending("POST", "/ids") for _ in range(WAITING_MAX))
        asked = [asyncio.ensure_future(each) for each in sending]
        await until(lambda: held.parts.ids.batcher.waiting == WAITING_MAX)
        further, read = await held.sending("POST", "/ids"), await held.sending("GET", "/plants")
        store.held.set()
        return further, read, [await each for each in asked]

    further, read, others = held.run(send())

    assert_error(further, 503, ErrorCode.OVERLOADED)
    assert "Retry-After" in further.headers
    assert {each.status_code for each in (read, *others)} == {200}


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
        (
            ZeroDivisionError(),
            500,
            "The service met an unexpected error; sending the request again is safe",
        ),
    ],
)
def test_a_request_whose_commit_failed_can_be_repeated(
    held: World, store: HeldStore, failure: Exception, status: int, message: str
) -> None:
    store.held.set()

    store.failure = failure
    failed = held.send("POST", "/ids")
    store.failure = None

    assert (failed.status_code, failed.json()["message"]) == (status, message)
    assert held.send("POST", "/ids").json() == {"first": 1, "last": 1}
    assert held.told(CommitFailed) == [CommitFailed(failure, 1)]
