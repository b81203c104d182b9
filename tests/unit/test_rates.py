"""How the uses of a token are counted, for one rate or several."""

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


def test_a_token_may_be_used_again_after_retry_after_or_if_the_clock_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    limit = RatePerToken("1/minute")
    limit.spend("a")
    with pytest.raises(RequestError, match="at most") as refused:
        limit.spend("a")

    for passed in (int(refused.value.headers["Retry-After"]) + 1, -100_000):
        now += passed
        limit.spend("a")
        with pytest.raises(RequestError, match="at most"):
            limit.spend("a")


@pytest.mark.parametrize(
    "rate", ["", "100", "x/second", "0/second", "5/second;0/hour", "-1/second", "1/fortnight", ";"]
)
def test_an_invalid_rate_is_refused(rate: str) -> None:
    with pytest.raises(UsageError, match="must be a number above 0 and a time, as in"):
        RatePerToken(rate)
