"""Rate limits per token."""

import contextlib
import math
import time

from limits import RateLimitItem, parse_many
from limits.storage import MemoryStorage
from limits.strategies import SlidingWindowCounterRateLimiter

from plantstore.errors import RateExceededError, UsageError


class RatePerToken:
    """Limits the uses of each token to one or more rates.

    Args:
        rate: in the notation of the library `limits`: `100/second`, or
            `100/second;5000/hour`. None means no limit.

    Attributes:
        burst_max: the most uses that can be counted at once; None if there is no limit.

    Raises:
        UsageError: the rate cannot be parsed.

    """

    def __init__(self, rate: str | None) -> None:
        self._rates: list[RateLimitItem] = []
        self.burst_max: int | None = None
        if rate is None:
            return
        with contextlib.suppress(ValueError):
            self._rates = parse_many(rate)
        if not self._rates or any(each.amount == 0 for each in self._rates):
            raise UsageError(
                f"--rate-per-token must be a number and a time, as in 100/second; got {rate!r}"
            )
        self.burst_max = min(each.amount for each in self._rates)
        self._limiter = SlidingWindowCounterRateLimiter(MemoryStorage())

    def spend(self, token: str, uses: int = 1) -> None:
        """Count uses of the token with this name.

        Raises:
            RateExceededError: the token was used too often.

        """
        for rate in self._rates:
            if not self._limiter.test(rate, token, cost=uses):
                reset = self._limiter.get_window_stats(rate, token).reset_time
                raise RateExceededError(str(rate), max(1, math.ceil(reset - time.time())))
        for rate in self._rates:
            self._limiter.hit(rate, token, cost=uses)
