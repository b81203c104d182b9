"""A connection to PostgreSQL that never waits forever and never confirms an unsafe commit.

Durability: a commit returns after its log is on the disk of the primary, and of every
synchronous standby. No setting of the server, the role or the URL can weaken this
(docs/decisions/0025).

A connection pooler in front of PostgreSQL may assign a session for each transaction or statement.
Then the settings and prepared statements of this service end up in the wrong sessions, and plants
would be stored with settings that do not wait for the disk. So each connection is also checked for
such a pooler.
"""

import contextlib
import select
from typing import Final, NoReturn, cast

import psycopg
from psycopg import errors
from psycopg.abc import RV, Params, PQGen
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.postgres.cluster import (
    STANDBY_NAMES,
    STATE_QUERIES,
    UNSUPPORTED,
    ServerState,
    standbys_in,
    state_of,
)
from plantstore.storage.postgres.faults import reason_of, shortened, translate_errors
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

    def fetch(self, statement: str, values: Params = ()) -> list[TupleRow]:
        """Execute a statement that has rows, and return them."""
        return self.execute(statement, values, binary=True).fetchall()

    def count_standbys(self) -> int:
        """Return how many standbys a commit waits for now."""
        # The server has read a configuration that changed during the last commit.
        [(names,)] = self.execute(_STANDBYS)
        return standbys_in(names or "")

    def require_standbys(self) -> None:
        """Check how many standbys the last commit waited for.

        Raises:
            OperationalError: there were too few, or this is unknown.

        """
        if self.standbys_min and (standbys := self.count_standbys()) < self.standbys_min:
            self._reject(too_few(standbys, self.standbys_min))

    def probe_state(self) -> ServerState:
        """Query the server's state.

        Raises:
            StoreUnavailableError: the query failed. The connection is closed.

        """
        try:
            with translate_errors(UNREACHABLE):
                return self._query_state()
        except BaseException as error:
            self.close()
            if isinstance(error, StoreUnavailableError):
                error.reason = shortened(f"{self.server.name}: {error.reason}")
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
        if self._unreplicated_commits:
            self._reject("the wait for the synchronous standby was cancelled")
        if any(self.pgconn.parameter_status(name) == b"on" for name in _READ_ONLY):
            self._reject("the server takes no writes any more")

    def _reject(self, reason: str) -> NoReturn:
        self.is_rejected = True
        self.close()
        raise psycopg.OperationalError(reason)

    def _note(self, notice: errors.Diagnostic) -> None:
        self._unreplicated_commits += notice.source_function == "SyncRepWaitForLSN"


def too_few(standbys: int, standbys_min: int) -> str:
    """Return the reason why a server with too few standbys is refused."""
    return f"its commits wait for {standbys} synchronous standbys, and must for {standbys_min}"


# Time limits for the statements that configure a new connection, and for a probe.
CONFIGURE_SECONDS: Final = 5
PROBE_SECONDS: Final = 3

# Settings of each session. A setting of the operator is kept if it is safe.
# enable_bitmapscan: with poor statistics, the planner would read and sort all plants of a tag for
# each page. tcp_keepalives: a server that does not notice the end of a client would keep the
# client's locks for hours.
_CONFIGURE: Final = """
WITH wanted (name, value) AS (VALUES
    ('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END),
    ('lock_timeout', CASE current_setting('lock_timeout')
        WHEN '0' THEN '5s' ELSE current_setting('lock_timeout') END),
    ('statement_timeout', CASE current_setting('statement_timeout')
        WHEN '0' THEN '10s' ELSE current_setting('statement_timeout') END),
    ('enable_bitmapscan', 'off'),
    ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3')
)
SELECT set_config(name, value, false) FROM wanted WHERE current_setting(name, true) IS NOT NULL
"""
# The setting of a timeout is in milliseconds.
_INSPECT: Final = """
SELECT (SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'),
    current_setting('fsync', true), current_setting('server_encoding')
"""


def connect(
    server: Server, *, has_timeout: bool = True, standbys_min: int = 0, for_writes: bool = False
) -> Connection:
    """Open a connection on which each statement commits by itself, durably.

    Args:
        server: as `servers_of` returns it.
        has_timeout: whether statements have a time limit.
        standbys_min: minimum number of synchronous standbys that a commit must wait for.
        for_writes: whether to refuse a server with fewer standbys at once.

    Raises:
        StoreUnreachableError: the server cannot be reached, is not a primary, or has too few
            standbys.
        StoreUnavailableError: the settings of the server are not safe.

    """
    connection = _open(server)
    try:
        connection.wait_seconds = CONFIGURE_SECONDS
        connection.server_state = connection.probe_state()
        connection.standbys_min = standbys_min
        if for_writes:
            _require_standbys(connection)
        _configure(connection, has_timeout=has_timeout)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_for_probe(server: Server, *, is_single: bool) -> Connection:
    """Open a connection that is used only to probe the state of a server.

    Args:
        server: as `servers_of` returns it.
        is_single: whether the URL names only this server. Its name may then stand for several
            servers, and the probe must reach the primary. Otherwise a standby is probed, too.

    Raises:
        StoreUnreachableError: the server cannot be reached.

    """
    any_kind = server._replace(conninfo=make_conninfo(server.conninfo, target_session_attrs="any"))
    connection = _open(server if is_single else any_kind)
    connection.wait_seconds = PROBE_SECONDS
    return connection


def _open(server: Server) -> Connection:
    try:
        connection = Connection.connect(server.conninfo, autocommit=True)
    except psycopg.OperationalError as error:
        reason = shortened(f"{server.name}: {reason_of(error)}")
        raise StoreUnreachableError(UNREACHABLE, reason) from error
    connection.server = server
    return connection


def _require_standbys(connection: Connection) -> None:
    standbys, standbys_min = connection.server_state.standbys, connection.standbys_min
    if standbys < standbys_min:
        raise StoreUnreachableError(
            "The database has too few synchronous standbys",
            f"{connection.server.name}: {too_few(standbys, standbys_min)}",
        )


def _configure(connection: Connection, *, has_timeout: bool) -> None:
    """Configure a new connection, and check that the server is safe to use."""
    with translate_errors(UNREACHABLE):
        connection.execute(_CONFIGURE)
        [(statement_timeout, fsync, encoding)] = connection.execute(_INSPECT)
        if not has_timeout:
            connection.execute("SET statement_timeout = 0")
    connection.wait_seconds = statement_timeout / 1000 + GRACE_SECONDS if has_timeout else None
    if fsync == "off":
        raise StoreUnavailableError(
            "The database runs with fsync = off: a power cut would lose confirmed changes"
        )
    if encoding != "UTF8":
        raise StoreUnavailableError(f"The database's encoding is {encoding}, not UTF8")


# How many other connections begin a transaction, so that a pooler gives them the session.
_OTHERS: Final = 4

_WHO: Final = "SELECT pg_backend_pid()"
_NO_SESSIONS: Final = (
    "The pooler in front of the database does not keep one session per connection: set its"
    " pool_mode to session"
)


def require_sessions(connection: Connection) -> None:
    """Check that a connection keeps its session while other connections need one.

    Without a pooler, the id of the session's process is the one that the server reported when
    the connection was opened. Then there is nothing else to check.

    Raises:
        StoreUnavailableError: the connection does not keep its session.

    """
    if _process(connection) == connection.pgconn.backend_pid:
        return
    with contextlib.ExitStack() as stack:
        try:
            mine = _process(connection)
            for _ in range(_OTHERS):
                other = stack.enter_context(contextlib.closing(connect(connection.server)))
                other.execute("BEGIN")
                if _process(other) == mine or _process(connection) != mine:
                    raise StoreUnavailableError(_NO_SESSIONS)
        except psycopg.Error as error:
            raise StoreUnavailableError(_NO_SESSIONS, reason_of(error)) from error


def _process(connection: Connection) -> int:
    [(process,)] = connection.execute(_WHO)
    return int(process)
