"""How PostgreSQL is kept in reach."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final, Protocol

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.postgres.connection import UNREACHABLE, Connection
from plantstore.storage.postgres.faults import errors_as_ours, shortened

# How long a lost server is left alone, at first and at most, before it is tried again.
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0

# A connection that was used within that time is not looked at before it is used again. The
# look would let go of the interpreter lock, and who then has it keeps it for milliseconds.
FRESH_SECONDS: Final = 1.0


class Endpoint(Protocol):
    """What a link connects to. `plantstore.storage.postgres.servers` has the promises."""

    def connect(self, *, for_changes: bool = False) -> Connection:
        """Open a connection."""
        ...

    def is_current(self, connection: Connection) -> bool:
        """Tell whether a connection may still be used."""
        ...

    def lose(self, connection: Connection) -> None:
        """Take note that a connection was lost."""
        ...


class Link:
    """A connection that is made when it is used, and made again when it was lost.

    It belongs to one thread at a time. While no server can be reached it is tried
    again at each use, but no sooner than a while after it failed, which doubles up
    to a bound; until then a use fails at once.

    Args:
        servers: what it connects to.
        for_changes: whether plants are changed on it.
        monotonic: a clock in seconds that is never set back.

    """

    def __init__(
        self,
        servers: Endpoint,
        *,
        for_changes: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = servers
        self._for_changes = for_changes
        self._monotonic = monotonic
        self._connection: Connection | None = None
        self._is_closed = False
        self._error: StoreUnavailableError
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
        try:
            with errors_as_ours(what):
                yield connection
                connection.check()
        except StoreUnavailableError as error:
            error.reason = shortened(f"{connection.server.name}: {error.reason}")
            if connection.closed and not connection.is_rejected:
                self._servers.lose(connection)
            raise
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
            if self._is_usable(self._connection):
                return self._connection
            self._connection.close()
            self._connection = None
        if self._monotonic() < self._retry_at:
            raise self._unreachable()
        try:
            self._connection = self._servers.connect(for_changes=self._for_changes)
        except StoreUnavailableError as error:
            self._error = error
            self._backoff_seconds = min(
                max(2 * self._backoff_seconds, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX
            )
            self._retry_at = self._monotonic() + self._backoff_seconds
            raise self._unreachable() from error
        self._backoff_seconds = 0.0
        return self._connection

    def _is_usable(self, connection: Connection) -> bool:
        if connection.closed or not self._servers.is_current(connection):
            return False
        return self._monotonic() - self._used_at < FRESH_SECONDS or connection.is_open()

    def _unreachable(self) -> StoreUnreachableError:
        error = self._error
        if isinstance(error, StoreUnreachableError):
            return StoreUnreachableError(error.message, error.reason)
        return StoreUnreachableError(UNREACHABLE, error.reason or error.message)
