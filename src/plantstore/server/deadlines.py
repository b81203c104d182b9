"""The deadlines for the client of a connection. Pure: no I/O, no timers.

Theory of operation
-------------------
A connection reports three events: a request begins, a request is complete, and a response is
complete. Each event sets one deadline, and the action at this deadline:

    connected                      CLOSE    after request_seconds
    the request has begun          REFUSE   after request_seconds
    it is read as a stream         none: the application limits its time
    complete, but not answered     none: the service has to respond
    answered, but not complete     CLOSE    after request_seconds: the rest is discarded
    answered and complete          CLOSE    after idle_seconds

The connection calls `check` at the time `next_check`, and performs the action that it returns.
So a connection needs one timer, and a request sets none. `next_check` is at most the shortest
timeout away, so `check` misses no deadline that an event sets in the meantime.

While the client has a response to read, the deadline does not count. Instead, the client must
read `TAKEN_BYTES_MIN` in each `request_seconds`, or nearly everything that was sent so far.
"""

import math
from collections.abc import Callable
from enum import Enum
from typing import Final

# Minimum number of bytes of a response that a client must read per `request_seconds`.
TAKEN_BYTES_MIN: Final = 64 * 1024

# Grace period after a deadline: data may be waiting in the socket if the loop was blocked.
GRACE_SECONDS: Final = 0.1


class Due(Enum):
    """The action that is due on a connection."""

    NOTHING = "nothing"
    REFUSE = "refuse"  # respond that the request did not arrive in time, and close
    CLOSE = "close"  # close without a response
    ABORT = "abort"  # close, and discard unread responses


# An attribute of an Enum class is looked up slowly before Python 3.12.
_REFUSE: Final = Due.REFUSE
_CLOSE: Final = Due.CLOSE


class Deadlines:
    """The deadlines of one connection, from the moment at which it is opened.

    Args:
        request_seconds: see `plantstore.server.interface.ConnectionConfig`.
        idle_seconds: see there, too.
        clock: a clock in seconds that never goes back.

    Attributes:
        is_arriving: whether a request has begun to arrive, and is not complete.
        next_check: the time of the next call of `check`, by the clock.

    """

    def __init__(
        self, *, request_seconds: float, idle_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._request_seconds = request_seconds
        self._idle_seconds = idle_seconds
        self._interval = min(request_seconds, idle_seconds)
        self._clock = clock
        self.is_arriving = self._is_answering = False
        now = clock()
        self._due = _CLOSE
        self._deadline = now + request_seconds
        # The deadline that has passed, while its grace period runs.
        self._in_grace = math.nan
        # How often a response was complete, or the client had read nearly all of it.
        self._drains = 0
        # The state at the beginning of the current interval, in which the client must read enough:
        # the time, the number of drains, and the number of unread bytes.
        self._taken: tuple[float, int, int] | None = None
        self.next_check = now + self._interval

    def begin_request(self) -> None:
        """Record the first byte of a request."""
        self.is_arriving = self._is_answering = True
        self._due = _REFUSE
        self._deadline = self._clock() + self._request_seconds

    def stream_request(self) -> None:
        """Note that the request that arrives is a stream, which may take any time."""
        self._deadline = math.inf

    def end_request(self) -> None:
        """Record the last byte of a request."""
        self.is_arriving = False
        self._deadline = math.inf if self._is_answering else self._clock() + self._idle_seconds

    def end_answer(self) -> None:
        """Record that a response is complete. The client may not have read it yet."""
        self._is_answering = False
        self._drains += 1
        self._due = _CLOSE
        seconds = self._request_seconds if self.is_arriving else self._idle_seconds
        self._deadline = self._clock() + seconds

    def drain(self) -> None:
        """Record that the client has read nearly all of what was sent, and more is written."""
        self._drains += 1

    def check(self, *, unsent_bytes: int, is_closing: bool, may_send: bool) -> Due:
        """Return what is due now, and set `next_check`.

        Args:
            unsent_bytes: bytes of responses that the client has not read.
            is_closing: whether the connection is being closed. This ends when the client has
                read everything. Over TLS, the client must also close the connection.
            may_send: whether the client can send: the service reads from the socket, and the
                client does not wait for permission to send a body.

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
        """Return ABORT if the client reads too little of its response."""
        if not self.is_arriving and not self._is_answering:
            self._deadline = now + self._idle_seconds  # the idle time has not begun yet
        if self._taken is not None:
            since, drains, unsent_before = self._taken
            if now < since + self._request_seconds:
                self.next_check = min(self.next_check, since + self._request_seconds)
                return Due.NOTHING
            if drains == self._drains and unsent_bytes > unsent_before - TAKEN_BYTES_MIN:
                return Due.ABORT
        self._taken = (now, self._drains, unsent_bytes)
        return Due.NOTHING
