"""A connection to PostgreSQL that never waits forever and never confirms an unsafe commit.

Durability: a commit returns after its log is on the disk of the primary, and of every
synchronous standby. No setting of the server, the role or the URL can weaken this
(docs/decisions/0025).
"""

import contextlib
import select
from collections.abc import Sequence
from typing import Final, cast

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from plantstore.errors import StoreUnavailableError
from plantstore.storage.postgres.cluster import (
    STANDBY_NAMES,
    STATE_QUERIES,
    UNSUPPORTED,
    ServerState,
    standbys_in,
    state_of,
)
from plantstore.storage.postgres.faults import shortened, translate_errors
from plantstore.storage.postgres.pipeline import Pipeline, Statement
from plantstore.storage.postgres.url import Server

# How long the client waits after the server's own statement_timeout, which normally ends a
# statement first. The same time is allowed for a cancellation.
GRACE_SECONDS: Final = 2

UNREACHABLE: Final = "The database cannot be reached"

_STANDBYS: Final = f"SELECT {STANDBY_NAMES}"

# Parameters that a server reports without being asked. They are "on" if it refuses writes.
_READ_ONLY: Final = (b"default_transaction_read_only", b"in_hot_standby")


class Connection(psycopg.Connection[TupleRow]):
    """A connection to PostgreSQL with a time limit for every wait.

    Attributes:
        wait_seconds: the limit for a statement on the client's side; None for no limit. The
            server's statement_timeout does not help if the server hangs, or waits for a
            standby.
        server: the server of the connection.
        server_state: the state that the server reported when the connection was opened.
        made_at: when the connection was opened, by a clock that never goes back.
        is_abandoned: whether the connection must not be used any more.
        is_rejected: whether the client closed it because a result could not be trusted.
        standbys_min: minimum number of synchronous standbys that a commit must wait for.

    """

    wait_seconds: float | None = None
    server: Server
    server_state: ServerState
    made_at = 0.0
    is_abandoned = False
    is_rejected = False
    standbys_min = 0

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._unreplicated_commits = 0
        self._state_query = 0
        self._pipelined = Pipeline(self)
        self.add_notice_handler(self._note)

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait as psycopg does, but at most `wait_seconds`. After a timeout, close."""
        try:
            seconds = self.wait_seconds if timeout is None else timeout
            return super().wait(self._until_abandoned(gen), interval, seconds)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                if not self.is_abandoned:
                    # Without a cancellation, a session that waits for a standby would continue
                    # to wait, and keep its locks.
                    with contextlib.suppress(psycopg.Error):
                        self.cancel_safe(timeout=GRACE_SECONDS)
                self.pgconn.finish()
            raise

    def abandon(self) -> None:
        """End the connection from another thread: at once if it waits, else before its next use."""
        self.is_abandoned = True

    def _until_abandoned(self, gen: PQGen[RV]) -> PQGen[RV]:
        """Run a generator of psycopg, and check at each step whether to stop.

        psycopg makes a step at each event, and after each interval without an event.
        """
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if self.is_abandoned:
                    raise psycopg.OperationalError("the server is an outdated primary")
                wanted = gen.send(ready)
        except StopIteration as done:
            return cast("RV", done.value)

    def execute_durably(self, query: str, bindings: Sequence[object] = ()) -> list[TupleRow]:
        """Execute a statement that commits by itself, and return its rows.

        Raises:
            OperationalError: the commit waited for too few standbys, or this is unknown.

        """
        if not self.standbys_min:
            cursor = self.execute(query.encode(), bindings, binary=True)
            return cursor.fetchall() if cursor.description else []
        # The server reads a changed configuration before each statement, even between these two.
        rows, [(names,)] = self._pipelined.execute(Statement(query, bindings), Statement(_STANDBYS))
        self._require_standbys(names)
        return rows

    def require_standbys(self) -> None:
        """Check how many standbys the last commit waited for.

        Raises:
            OperationalError: there were too few, or this is unknown.

        """
        if self.standbys_min:
            [(names,)] = self.execute(_STANDBYS)
            self._require_standbys(names)

    def _require_standbys(self, names: str | None) -> None:
        standbys = standbys_in(names or "")
        if standbys < self.standbys_min:
            self._reject()
            raise psycopg.OperationalError(too_few(standbys, self.standbys_min))

    def probe_state(self) -> ServerState:
        """Query the server's state.

        Raises:
            StoreUnavailableError: the query failed. The connection is closed.

        """
        try:
            with translate_errors(UNREACHABLE):
                return self._query_state()
        except StoreUnavailableError as error:
            error.reason = shortened(f"{self.server.name}: {error.reason}")
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    def _query_state(self) -> ServerState:
        while True:
            try:
                [row] = self.execute(STATE_QUERIES[self._state_query])
            except UNSUPPORTED:
                if self._state_query + 1 == len(STATE_QUERIES):
                    raise
                self._state_query += 1
            else:
                return state_of(row)

    def is_open(self) -> bool:
        """Return whether the connection is open on both sides, without a round trip."""
        poll = select.poll()
        try:
            poll.register(self.pgconn.socket, select.POLLIN)
            while poll.poll(0):
                self.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    def check(self) -> None:
        """Check the warnings and parameters that the server sent with its last results.

        If the wait of a commit for the standbys is cancelled, the commit is done on the
        primary alone. PostgreSQL then reports success and a warning. A server that becomes
        read-only also reports this (https://www.postgresql.org/docs/current/libpq-status.html).
        Another server is the primary then, and the results of this one may be outdated.

        Raises:
            OperationalError: the results cannot be trusted. The connection is closed.

        """
        reason = None
        if self._unreplicated_commits:
            reason = "the wait for the synchronous standby was cancelled"
        elif any(self.pgconn.parameter_status(name) == b"on" for name in _READ_ONLY):
            reason = "the server takes no writes any more"
        if reason is not None:
            self._reject()
            raise psycopg.OperationalError(reason)

    def _reject(self) -> None:
        self.is_rejected = True
        self.close()

    def _note(self, notice: errors.Diagnostic) -> None:
        self._unreplicated_commits += notice.source_function == "SyncRepWaitForLSN"


def too_few(standbys: int, standbys_min: int) -> str:
    """Return the reason why a server with too few standbys is refused."""
    return f"its commits wait for {standbys} synchronous standbys, and must for {standbys_min}"
