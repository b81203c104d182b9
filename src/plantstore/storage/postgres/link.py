"""A connection that is opened again after it breaks."""

import contextlib
import time
from collections.abc import Callable, Iterator
from typing import Final

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.postgres.connection import UNREACHABLE, Connection
from plantstore.storage.postgres.faults import shortened, translate_errors
from plantstore.storage.postgres.servers import Servers

# The first and the longest pause between two attempts to connect.
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0

# A connection that was used this recently is not checked before it is used again. The check
# would release the interpreter lock, and another thread may keep the lock for milliseconds.
FRESH_SECONDS: Final = 1.0


class Link:
    """Opens a connection when it is first used, and again after it breaks.

    It belongs to one thread at a time. After a failed attempt to connect, each use fails at
    once until a pause is over. The pauses grow from BACKOFF_SECONDS_MIN to
    BACKOFF_SECONDS_MAX.

    Args:
        servers: what it connects to.
        for_writes: whether the connection is used for changes of plants.
        monotonic: a clock in seconds that never goes back.

    """

    def __init__(
        self,
        servers: Servers,
        *,
        for_writes: bool = False,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = servers
        self._for_writes = for_writes
        self._monotonic = monotonic
        self._connection: Connection | None = None
        self._is_closed = False
        self._error: StoreUnavailableError
        self._backoff_seconds = 0.0
        self._retry_at = 0.0
        self._used_at = 0.0

    @contextlib.contextmanager
    def using(self, what: str) -> Iterator[Connection]:
        """Give the connection to the block.

        Args:
            what: the message of an error that the block raises.

        Raises:
            StoreUnreachableError: there is no connection, and nothing was sent.
            StoreUnavailableError: the server caused an error in the block, or its results
                cannot be trusted.

        """
        connection = self._connected()
        try:
            with translate_errors(what):
                yield connection
                connection.check()
        except StoreUnavailableError as error:
            error.reason = shortened(f"{connection.server.name}: {error.reason}")
            if connection.closed and not connection.is_rejected:
                self._servers.lose(connection)
            raise
        self._used_at = self._monotonic()

    def close(self) -> None:
        """Close the connection. Each use fails from now on."""
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
            self._connection = self._servers.connect(for_writes=self._for_writes)
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
