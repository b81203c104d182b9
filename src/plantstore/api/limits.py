"""Limits for each token: how often it may be used, and for how many requests at a time."""

import math
import re
import time
from collections import Counter
from collections.abc import Callable
from typing import Final, NamedTuple

from plantstore.errors import ErrorCode, RequestError, UsageError, quoted

# A month and a year are those of the library `limits`, whose notation this is.
_SECONDS: Final = {
    "second": 1,
    "minute": 60,
    "hour": 60 * 60,
    "day": 24 * 60 * 60,
    "month": 30 * 24 * 60 * 60,
    "year": 360 * 24 * 60 * 60,
}
_RATE: Final = re.compile(
    rf"([1-9]\d*) *(?:/|per) *([1-9]\d*)? *({'|'.join(_SECONDS)})s?", re.ASCII | re.IGNORECASE
)


class Rate(NamedTuple):
    """A number of uses in a time."""

    uses: int
    seconds: int
    text: str


def parse_rates(text: str) -> list[Rate]:
    """Parse one or more rates, as in `100/second;5000/hour` or `10 per 5 minutes`.

    Raises:
        UsageError: this is no rate.

    """
    rates = []
    for each in re.split("[;,|]", text):
        found = _RATE.fullmatch(each.strip())
        if found is None:
            raise UsageError(
                f"--rate-per-token must be a number above 0 and a time, as in 100/second;"
                f" got {quoted(text)}"
            )
        uses, units, unit = found.groups()
        seconds = int(units or 1) * _SECONDS[unit.lower()]
        rates.append(Rate(int(uses), seconds, each.strip()))
    return rates


class RatePerToken:
    """Limits the uses of each token to one or more rates.

    It counts the uses in the current window of time, and a part of those in the window before: the
    part of the current window that is left. In a single window, it may allow up to twice the uses
    of the rate.

    Args:
        rate: as `parse_rates` reads it. None means no limit.
        monotonic: a clock in seconds that never goes back.

    Attributes:
        burst_max: the most uses that can be counted at once; None if there is no limit.

    Raises:
        UsageError: the rate cannot be parsed.

    """

    def __init__(self, rate: str | None, monotonic: Callable[[], float] = time.monotonic) -> None:
        self._rates = [] if rate is None else parse_rates(rate)
        self._monotonic = monotonic
        self.burst_max = min((each.uses for each in self._rates), default=None)
        # The number of the last window with uses, the uses in the one before, and in this one.
        self._uses: dict[tuple[Rate, str], tuple[float, int, int]] = {}

    def spend(self, token: str, uses: int = 1) -> None:
        """Count uses of the token with this name, or requests without one (an empty name).

        Raises:
            RequestError: RATE_EXCEEDED, if the token was used too often.

        """
        now, counted = self._monotonic(), {}
        for rate in self._rates:
            seconds = rate.seconds
            window, passed = divmod(now, seconds)
            last, before, current = self._uses.get((rate, token), (window, 0, 0))
            if last != window:
                before, current = (current if last == window - 1 else 0), 0
            # As many uses before are refused. More uses at once than the rate has are allowed only
            # if there was none before.
            left = max(1, rate.uses - uses + 1)
            if before * (seconds - passed) >= (left - current) * seconds:
                if current < left:
                    wait = seconds - (left - current) * seconds / before - passed
                else:  # until enough of the next window is over
                    wait = 2 * seconds - left * seconds / current - passed
                what = "The token" if token else "The service without a token"
                raise RequestError(
                    ErrorCode.RATE_EXCEEDED,
                    f"{what} may be used at most {rate.text}",
                    {"Retry-After": f"{math.floor(wait) + 1}"},
                )
            counted[rate, token] = window, before, current + uses
        self._uses |= counted

    def give_back(self, token: str, uses: int) -> None:
        """Count fewer uses, because they changed nothing."""
        for rate in self._rates:
            if found := self._uses.get((rate, token)):
                window, before, current = found
                self._uses[rate, token] = window, before, max(0, current - uses)


class ConcurrencyLimit:
    """Limits how many of these requests run at a time.

    It is a semaphore that never waits. At most three quarters are of one token, so that one client
    cannot keep out all others.

    Args:
        requests_max: how many may run.
        what: the plural of the requests, for error messages.

    """

    def __init__(self, requests_max: int, what: str) -> None:
        self._requests_max = requests_max
        self._per_token_max = requests_max * 3 // 4
        self._what = what
        self._running: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """The number of requests that run."""
        return self._running.total()

    def acquire(self, token: str) -> None:
        """Count a request with the token of this name.

        Raises:
            RequestError: OVERLOADED.

        """
        if self.running >= self._requests_max:
            raise RequestError(ErrorCode.OVERLOADED, f"Too many {self._what} run; nothing was done")
        if self._running[token] >= self._per_token_max:
            what = f"{self._what} with this token" if token else f"{self._what} without a token"
            message = f"Too many {what} run; nothing was done"
            raise RequestError(ErrorCode.OVERLOADED, message)
        self._running[token] += 1

    def release(self, token: str) -> None:
        """Note that a request has ended."""
        self._running[token] -= 1
        if not self._running[token]:
            del self._running[token]
