"""The rate limit of each token."""

import time

import pytest

from plantstore.api.auth import RatePerToken
from plantstore.errors import ErrorCode, RateExceededError, UsageError
from support.world import World, assert_error, run


def test_a_token_that_is_used_too_often_is_refused_and_others_are_not() -> None:
    async def test(world: World) -> None:
        statuses = [(await world.post()).status_code for _ in range(3)]
        refused = await world.post()
        other = await world.post(token=world.add_token("other"))

        assert statuses == [200, 200, 200]
        assert_error(refused, 429, ErrorCode.RATE_EXCEEDED)
        assert 1 <= int(refused.headers["Retry-After"]) <= 3600
        assert refused.json()["message"] == "The token may be used at most 3 per 1 hour"
        assert other.status_code == 200

    run(test, World(rate_per_token="3/hour"))


def test_requests_that_are_refused_for_other_reasons_do_not_count() -> None:
    async def test(world: World) -> None:
        reader = world.add_token("reader", "plants:read")
        for _ in range(3):
            assert (await world.post(token=reader)).status_code == 403
        assert (await world.send("GET", "/plants", token=reader)).status_code == 200
        assert (await world.send("GET", "/plants", token=reader)).status_code == 429

    run(test, World(rate_per_token="1/hour"))


def test_each_of_several_rates_is_enforced() -> None:
    for rates in ("2/hour;3/day", "3/minute;2/hour"):
        limit = RatePerToken(rates)
        limit.spend("a")
        limit.spend("a")
        with pytest.raises(RateExceededError) as refused:
            limit.spend("a")

        assert refused.value.message == "The token may be used at most 2 per 1 hour"


def test_uses_that_one_rate_refuses_are_not_counted_for_another() -> None:
    limit = RatePerToken("4/day;3/2 days")
    limit.spend("a", 2)
    with pytest.raises(RateExceededError):
        limit.spend("a", 2)

    limit.spend("a", 1)

    assert limit.burst_max == 3
    with pytest.raises(RateExceededError):
        limit.spend("a", 1)


def test_a_token_may_be_used_again_after_its_window(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    limit = RatePerToken("1/minute")
    limit.spend("a")
    with pytest.raises(RateExceededError) as refused:
        limit.spend("a")

    # The window slides: a part of the previous minute still counts.
    now += 60 + refused.value.retry_after

    limit.spend("a")
    with pytest.raises(RateExceededError):
        limit.spend("a")


def test_a_clock_that_is_set_back_locks_out_no_token(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    limit = RatePerToken("1/minute")
    limit.spend("a")

    now -= 100_000

    limit.spend("a")
    with pytest.raises(RateExceededError):
        limit.spend("a")


@pytest.mark.parametrize(
    "rate", ["", "100", "x/second", "0/second", "-1/second", "1/fortnight", ";"]
)
def test_an_invalid_rate_is_refused(rate: str) -> None:
    with pytest.raises(UsageError, match="as in 100/second"):
        RatePerToken(rate)
