"""How the uses of a token are counted, for one rate or several."""

import contextlib
import time

import pytest

from plantstore.api.auth import RatePerToken
from plantstore.errors import RequestError, UsageError


def test_each_of_several_rates_is_enforced() -> None:
    for rates in ("2/hour;3/day", "3/minute;2/hour"):
        limit = RatePerToken(rates)
        limit.spend("a")
        limit.spend("a")
        with pytest.raises(RequestError, match="at most") as refused:
            limit.spend("a")

        assert refused.value.message == "The token may be used at most 2 per 1 hour"


def test_uses_that_one_rate_refuses_are_not_counted_for_another() -> None:
    limit = RatePerToken("4/day;3/2 days")
    limit.spend("a", 2)
    with pytest.raises(RequestError, match="at most"):
        limit.spend("a", 2)

    limit.spend("a", 1)

    assert limit.burst_max == 3
    with pytest.raises(RequestError, match="at most"):
        limit.spend("a", 1)


@pytest.mark.parametrize("uses", [1, 2, 3, 5])
@pytest.mark.parametrize("begin", [0.0, 31.0, 59.5])
def test_a_token_may_be_used_again_after_retry_after_and_not_a_second_before(
    begin: float, uses: int
) -> None:
    now = 1_000_000.0 * 60 + begin
    limit = RatePerToken("5/minute", lambda: now)
    for _ in range(20):
        with contextlib.suppress(RequestError):
            limit.spend("a")
    for _ in range(10):
        with pytest.raises(RequestError, match="at most") as refused:
            limit.spend("a", uses)
        wait = int(refused.value.headers["Retry-After"])
        assert 1 <= wait <= 120
        now += wait - 1
        if wait > 1:
            with pytest.raises(RequestError, match="at most"):
                limit.spend("a", uses)
        now += 1
        limit.spend("a", uses)
        with contextlib.suppress(RequestError):
            limit.spend("a", 5 - uses + 1)


def test_a_clock_that_is_set_back_changes_no_rate(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: clock)
    now = 60.0
    limit = RatePerToken("1/minute", lambda: now)
    limit.spend("a")

    now, clock = 240.0, 900_000.0

    limit.spend("a")


def test_a_window_has_at_most_twice_the_uses_of_the_rate() -> None:
    now = 0.0
    limit, times = RatePerToken("10/minute", lambda: now), []
    for tenth in range(6_000):
        now = tenth / 10
        with contextlib.suppress(RequestError):
            limit.spend("a")
            times.append(now)

    assert max(sum(begin <= each < begin + 60 for each in times) for begin in times) <= 20
    assert len(times) >= 90


@pytest.mark.parametrize(
    "rate", ["", "100", "x/second", "0/second", "5/second;0/hour", "-1/second", "1/fortnight", ";"]
)
def test_an_invalid_rate_is_refused(rate: str) -> None:
    with pytest.raises(UsageError, match="must be a number above 0 and a time, as in"):
        RatePerToken(rate)


def test_more_uses_than_the_rate_has_are_counted_if_there_were_none() -> None:
    now = 1_000_000.0
    limit = RatePerToken("1/second", lambda: now)

    limit.spend("a", 2)

    with pytest.raises(RequestError, match="at most"):
        limit.spend("a")
    now += 3
    limit.spend("a")
