"""How PostgreSQL is kept in reach."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.postgres_connection import UNREACHABLE, Connection, errors_as_ours

# How long a lost server is left alone, at first and at most, before it is tried again.
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0

# A connection that was used within that time is not looked at before it is used again. The
# look would let go of the interpreter lock, and who then has it keeps it for milliseconds.
FRESH_SECONDS: Final = 1.0


class Link:
    """A connection that is made when it is used, and made again when it was lost.

    It belongs to one thread at a time. While no server can be reached it is tried
    again at each use, but no sooner than a while after it failed, which doubles up
    to a bound; until then a use fails at once.

    Args:
        connect: makes a connection.
        monotonic: a clock in seconds that is never set back.

    """

    def __init__(
        self, connect: Callable[[], Connection], monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._connect = connect
        self._monotonic = monotonic
        self._connection: Connection | None = None
        self._is_closed = False
        self._reason = ""
        self._backoff_seconds = 0.0
        self._retry_at = 0.0
        self._used_at = 0.0

    @contextlib.contextmanager
    def using(self, what: str) -> Iterator[Connection]:
        """Give the connection; `what` says what failed if it then does.

        Raises:
            StoreUnreachableError: there is no connection; nothing was asked.
            StoreUnavailableError: the server is to blame for what the block
                raised, or what it answered must not be relied upon.

        """
        connection = self._connected()
        with errors_as_ours(what):
            yield connection
            connection.check()
        self._used_at = self._monotonic()

    def close(self) -> None:
        """Hang up for good."""
        self._is_closed = True
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> Connection:
        if self._is_closed:
            raise StoreUnreachableError("The store is closed")
        if self._connection is not None:
            is_fresh = self._monotonic() - self._used_at < FRESH_SECONDS
            if not self._connection.closed and (is_fresh or self._connection.is_open()):
                return self._connection
            self._connection.close()
            self._connection = None
        if self._monotonic() < self._retry_at:
            raise StoreUnreachableError(UNREACHABLE, self._reason)
        try:
            self._connection = self._connect()
        except StoreUnavailableError as error:
            self._reason = error.reason or error.message
            self._backoff_seconds = min(
                max(2 * self._backoff_seconds, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX
            )
            self._retry_at = self._monotonic() + self._backoff_seconds
            raise StoreUnreachableError(UNREACHABLE, self._reason) from error
        self._backoff_seconds = 0.0
        return self._connection
