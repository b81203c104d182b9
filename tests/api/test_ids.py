"""Ids from the service: `POST /ids`."""

import asyncio
from typing import Any

import pytest

from plantstore.errors import ErrorCode, NothingDoneError, StoreUnavailableError
from plantstore.observe import CommitFailed
from plantstore.plants import ID_MAX, NewPlant
from support.stores import Gate
from support.world import World, assert_error, until


@pytest.fixture
def gate(world: World) -> Gate:
    """Return where each commit of ids waits."""
    gate = world.store.before["hand_out_ids"] = Gate()
    return gate


def ask(world: World, gate: Gate, counts: list[int]) -> list[Any]:
    """Ask for an id, and for more while it is handed out; return all responses."""

    async def send() -> list[Any]:
        asked = [asyncio.ensure_future(world.sending("POST", "/ids"))]
        await asyncio.to_thread(gate.entered.acquire)
        asked += [
            asyncio.ensure_future(world.sending("POST", f"/ids?count={count}")) for count in counts
        ]
        await until(lambda: world.parts.ids.batcher.waiting == len(asked))
        gate.let_go.release(1000)
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


@pytest.mark.parametrize("body", [b"{}", b"5" * 100_000])
def test_the_refusal_of_a_body_names_the_parameter(world: World, body: bytes) -> None:
    refused = world.send("POST", "/ids", body)

    assert_error(refused, 400, ErrorCode.INVALID_PARAMETER, "?count=")
    assert world.send("POST", "/ids?count=5", b"").json() == {"first": 1, "last": 5}


def test_requests_that_wait_for_ids_share_one_commit(world: World, gate: Gate) -> None:
    ranges = [answer.json() for answer in ask(world, gate, list(range(1, 11)))]

    ids = [id_ for each in ranges for id_ in range(each["first"], each["last"] + 1)]
    assert sorted(ids) == list(range(1, 57))
    assert [each["last"] - each["first"] + 1 for each in ranges[1:]] == list(range(1, 11))
    assert gate.asked == [(1,), (55,)]


def test_if_too_few_ids_are_left_for_all_requests_those_that_fit_get_theirs(
    world: World, gate: Gate
) -> None:
    world.put_in(NewPlant(ID_MAX - 6, "a"))

    answers = ask(world, gate, [2, 1000, 3])

    assert [each.status_code for each in answers] == [200, 200, 400, 200]
    assert_error(answers.pop(2), 400, ErrorCode.IDS_EXHAUSTED)
    assert {each.json()["last"] for each in answers} == {ID_MAX - 5, ID_MAX - 3, ID_MAX}
    assert_error(world.send("POST", "/ids"), 400, ErrorCode.IDS_EXHAUSTED)
    assert not world.told(CommitFailed)


@pytest.mark.parametrize(
    ("failure", "status", "message"),
    [
        (StoreUnavailableError("Full"), 503, "Full; sending the request again is safe"),
        (NothingDoneError("Away"), 503, "Away; no id was handed out"),
        (
            *(ZeroDivisionError(), 500),
            "The service met an unexpected error; sending the request again is safe",
        ),
    ],
)
def test_a_request_whose_commit_failed_can_be_repeated(
    world: World, failure: Exception, status: int, message: str
) -> None:
    assert world.send("POST", "/ids?count=2").json() == {"first": 1, "last": 2}
    world.store.fail(failure, "hand_out_ids")
    failed = world.send("POST", "/ids")
    world.store.repair()

    assert (failed.status_code, failed.json()["message"]) == (status, message)
    assert world.send("POST", "/ids").json() == {"first": 3, "last": 3}
    assert world.told(CommitFailed) == [CommitFailed(failure, 1)]
