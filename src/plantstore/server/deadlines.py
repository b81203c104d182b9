"""When the client of a connection is late, and what is done then. Pure: no I/O, no timers.

Theory of operation
-------------------
A connection tells what happens: a request begins, it is whole, its answer is complete. Each
event sets one deadline and what is due at it:

    connected                      CLOSE    after request_seconds
    a request begins               REFUSE   after request_seconds
    it is whole, and unanswered    nothing: the service has to answer
    it is answered, and not whole  CLOSE    after request_seconds: the rest is dropped
    it is answered, and whole      CLOSE    after idle_seconds

The connection calls `check` at the time `next_check`, and does what it returns. So a
connection needs one timer, and a request sets none. `next_check` is never further away than the
shortest timeout, so no deadline that an event sets meanwhile is missed.

While the client has an answer to take, the deadline does not count. Then it must take
`TAKEN_BYTES_MIN` in each `request_seconds`, or what is left.
"""

import math
from collections.abc import Callable
from enum import Enum
from typing import Final

# Minimum number of bytes of an answer that a client must take per `request_seconds`.
TAKEN_BYTES_MIN: Final = 64 * 1024

# Grace period after a deadline: data may be waiting in the socket if the loop was blocked.
GRACE_SECONDS: Final = 0.1


class Due(Enum):
    """What is to be done with a connection now."""

    NOTHING = "nothing"
    REFUSE = "refuse"  # answer that the request did not arrive in time, and close
    CLOSE = "close"  # close, without an answer
    ABORT = "abort"  # close, and drop what the client did not take


# An attribute of an Enum class is looked up slowly before Python 3.12.
_REFUSE: Final = Due.REFUSE
_CLOSE: Final = Due.CLOSE


class Deadlines:
    """The deadlines of one connection, from the moment in which it is made.

    Args:
        request_seconds: see `plantstore.server.interface.Bounds`.
        idle_seconds: the same.
        clock: a time in seconds that is never set back.

    Attributes:
        next_check: when `check` is to be called next, by that clock.

    """

    __slots__ = (
        "_answers",
        "_clock",
        "_deadline",
        "_due",
        "_idle_seconds",
        "_in_grace",
        "_interval",
        "_is_answering",
        "_is_arriving",
        "_request_seconds",
        "_taken",
        "next_check",
    )

    def __init__(
        self, *, request_seconds: float, idle_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._request_seconds = request_seconds
        self._idle_seconds = idle_seconds
        self._interval = min(request_seconds, idle_seconds)
        self._clock = clock
        self._is_arriving = self._is_answering = False
        now = clock()
        self._due = _CLOSE
        self._deadline = now + request_seconds
        # The deadline that has passed, while its grace period runs.
        self._in_grace = math.nan
        self._answers = 0
        # Since when the client has an answer to take, or the last time that it had taken enough
        # of one; the number of answers before it, and the bytes that were left.
        self._taken: tuple[float, int, int] | None = None
        self.next_check = now + self._interval

    def begin_request(self) -> None:
        """Note the first byte of a request."""
        self._is_arriving = self._is_answering = True
        self._due = _REFUSE
        self._deadline = self._clock() + self._request_seconds

    def end_request(self) -> None:
        """Note the last byte of a request."""
        self._is_arriving = False
        self._deadline = math.inf if self._is_answering else self._clock() + self._idle_seconds

    def end_answer(self) -> None:
        """Note that an answer is complete, whether the client has taken it or not."""
        self._is_answering = False
        self._answers += 1
        self._due = _CLOSE
        seconds = self._request_seconds if self._is_arriving else self._idle_seconds
        self._deadline = self._clock() + seconds

    def check(self, *, unsent_bytes: int, is_closing: bool, may_send: bool) -> Due:
        """Return what is due now, and set `next_check`.

        Args:
            unsent_bytes: of answers, which the client has not taken.
            is_closing: whether the connection is being closed, which is over when the client
                has taken all. Over TLS, the client has to close it, too.
            may_send: whether the client can send: it is read from, and needs no permission.

        """
        now = self._clock()
        self.next_check = now + self._interval
        if unsent_bytes:
            return self._check_taking(now, unsent_bytes)
        self._taken = None
        if is_closing:
            return Due.ABORT
        if not may_send:
            return Due.NOTHING
        if now < self._deadline:
            self.next_check = min(self.next_check, self._deadline)
            return Due.NOTHING
        if self._in_grace != self._deadline:
            self._in_grace = self._deadline
            self.next_check = now + GRACE_SECONDS
            return Due.NOTHING
        return self._due

    def _check_taking(self, now: float, unsent_bytes: int) -> Due:
        """Return ABORT if the client takes too little of an answer."""
        if not self._is_arriving and not self._is_answering:
            self._deadline = now + self._idle_seconds  # it is not idle yet
        if self._taken is not None:
            since, answers, unsent_before = self._taken
            if now < since + self._request_seconds:
                self.next_check = min(self.next_check, since + self._request_seconds)
                return Due.NOTHING
            if answers == self._answers and unsent_bytes > unsent_before - TAKEN_BYTES_MIN:
                return Due.ABORT
        self._taken = (now, self._answers, unsent_bytes)
        return Due.NOTHING
