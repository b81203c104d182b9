"""The deadlines for the client of a connection. Pure: no I/O, no timers.

Theory of operation
-------------------
`plantstore.server.states` has the rule for each state: what is due, and after how long. A
deadline counts from the moment at which its rule begins to apply.

The connection calls `check` at the time `next_check`, and performs the action that it returns.
So a connection needs one timer, and a request sets none. `next_check` is at most the shortest
timeout away, so `check` misses no deadline that is set in the meantime.

While the client has a response to read, the deadline does not count. Instead, the client must
read `READ_BYTES_MIN` in each `request_seconds`, or nearly everything that was sent so far.
"""

import math
from collections.abc import Callable
from typing import Final

from plantstore.server.states import FIRST_REQUEST, Deadline, Due

# Minimum number of bytes of a response that a client must read per `request_seconds`.
READ_BYTES_MIN: Final = 64 * 1024

# Grace period after a deadline: data may be waiting in the socket if the loop was blocked.
GRACE_SECONDS: Final = 0.1

# Interval of the checks while a client has to wait for the service. So a deadline may be up to this
# much too early.
WAITING_SECONDS: Final = 1.0


class Deadlines:
    """The deadlines of one connection, from the moment at which it is opened.

    Attributes:
        next_check: the time of the next call of `check`, by the clock.

    """

    def __init__(
        self, *, request_seconds: float, idle_seconds: float, clock: Callable[[], float]
    ) -> None:
        self._request_seconds = request_seconds
        self._idle_seconds = idle_seconds
        self._interval = min(request_seconds, idle_seconds)
        self._clock = clock
        now = clock()
        self._rule: Deadline | None = FIRST_REQUEST
        self._seconds = request_seconds  # of the rule
        self._time = now + request_seconds
        # The time of the deadline that has passed, while its grace period runs.
        self._in_grace = math.nan
        # How often a response was complete, or the client had read nearly all of it.
        self._drains = 0
        # The state at the beginning of the current interval, in which the client must read enough:
        # the time, the number of drains, and the number of unread bytes.
        self._read_since: tuple[float, int, int] | None = None
        self.next_check = now + self._interval

    def follow(self, rule: Deadline | None) -> None:
        """Apply a rule from now on, or no rule. Nothing changes if it applies already."""
        if rule is not self._rule:
            self._rule = rule
            if rule is not None:
                self._seconds = self._idle_seconds if rule.is_idle else self._request_seconds
                self._time = self._clock() + self._seconds

    def restart(self) -> None:
        """Let the time of the present rule begin again."""
        self._time = self._clock() + self._seconds

    def drain(self) -> None:
        """Record that a response is complete, or that the client has read nearly all of it."""
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
            return self._check_reading(now, unsent_bytes)
        self._read_since = None
        if is_closing:
            return Due.ABORT
        if self._rule is None:
            return Due.NOTHING
        if not may_send:
            self._time = now + self._request_seconds  # this time does not count
            self.next_check = min(self.next_check, now + WAITING_SECONDS)
        if now < self._time:
            self.next_check = min(self.next_check, self._time)
            return Due.NOTHING
        if self._in_grace != self._time:
            self._in_grace = self._time
            self.next_check = now + GRACE_SECONDS
            return Due.NOTHING
        return self._rule.due

    def _check_reading(self, now: float, unsent_bytes: int) -> Due:
        """Return ABORT if the client reads too little of its response."""
        self._time = now + self._seconds  # this time does not count
        if self._read_since is not None:
            since, drains, unsent_before = self._read_since
            if now < since + self._request_seconds:
                self.next_check = min(self.next_check, since + self._request_seconds)
                return Due.NOTHING
            if drains == self._drains and unsent_bytes > unsent_before - READ_BYTES_MIN:
                return Due.ABORT
        self._read_since = (now, self._drains, unsent_bytes)
        return Due.NOTHING
