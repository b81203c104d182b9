"""Rate limits per token."""

import math
import time
from typing import Protocol

from limits import parse_many
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from plantstore.errors import RateExceededError, UsageError


class RateLimit(Protocol):
    """Counts the uses of tokens."""

    @property
    def burst_max(self) -> int | None:
        """The most uses that can be counted at once; None if there is no limit."""
        ...

    def spend(self, token: str, uses: int = 1) -> None:
        """Count uses of the token with this name.

        Raises:
            RateExceededError: the token was used too often.

        """
        ...


class Unlimited:
    """No rate limit."""

    burst_max = None

    def spend(self, token: str, uses: int = 1) -> None:
        """Accept every use."""


class RatePerToken:
    """Limits the uses of each token to one or more rates.

    Args:
        rate: in the notation of the library `limits`: `100/second`, or
            `100/second;5000/hour`.

    Raises:
        UsageError: the rate cannot be parsed.

    """

    def __init__(self, rate: str) -> None:
        try:
            self._rates = parse_many(rate)
        except ValueError:
            self._rates = []
        if not self._rates or any(each.amount == 0 for each in self._rates):
            raise UsageError(
                f"--rate-per-token must be a number and a time, as in 100/second; got {rate!r}"
            )
        self.burst_max: int | None = min(each.amount for each in self._rates)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def spend(self, token: str, uses: int = 1) -> None:
        """Count uses, as `RateLimit.spend` promises."""
        for rate in self._rates:
            if not self._limiter.test(rate, token, cost=uses):
                reset = self._limiter.get_window_stats(rate, token).reset_time
                raise RateExceededError(str(rate), max(1, math.ceil(reset - time.time())))
        for rate in self._rates:
            self._limiter.hit(rate, token, cost=uses)
