"""Health, as a load balancer asks for it."""

import asyncio

import pytest

from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.observe import LookupFailed, ReadinessChanged
from world import World, assert_error, run


@pytest.mark.parametrize("path", ["/healthz", "/readyz"])
def test_health_needs_no_token(path: str) -> None:
    async def test(world: World) -> None:
        answer = await world.client.get(path)
        assert (answer.status_code, answer.json()) == (200, {"status": "ok"})
        assert answer.headers["Content-Type"] == "application/json"
        assert (await world.client.head(path)).status_code == 200

    run(test)


def test_many_who_ask_within_a_second_share_one_look() -> None:
    async def test(world: World) -> None:
        await asyncio.gather(*(world.client.get("/readyz") for _ in range(10)))
        await world.client.get("/readyz")

        assert world.store.probes == 1

    run(test)


def test_while_the_store_is_away_the_service_is_alive_and_not_ready_and_then_ready_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("plantstore.api.operations.LOOK_SECONDS", 0)
    error = StoreUnavailableError(
        "The database cannot be reached", "connection refused by 10.0.0.1"
    )

    async def test(world: World) -> None:
        assert (await world.client.get("/readyz")).status_code == 200
        world.store.read_failure = error
        for _ in range(2):
            answer = await world.client.get("/readyz")
            assert_error(answer, 503, ErrorCode.STORE_UNAVAILABLE)
            assert answer.headers["Retry-After"] == "1"
            assert answer.json()["message"] == "The database cannot be reached"
        assert (await world.client.get("/healthz")).status_code == 200
        world.store.read_failure = None
        assert (await world.client.get("/readyz")).status_code == 200

    assert run(test).events[1:-1] == [ReadinessChanged(error), ReadinessChanged(None)]


def test_a_token_that_cannot_be_looked_up_is_told_to_the_observer_and_nothing_is_done() -> None:
    error = StoreUnavailableError("The database cannot be reached", "connection refused")

    async def test(world: World) -> None:
        world.store.failure = error
        answer = await world.post()
        assert answer.json()["message"] == "The database cannot be reached; nothing was done"

    assert LookupFailed(error) in run(test).events
