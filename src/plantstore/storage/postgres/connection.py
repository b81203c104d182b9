"""How PostgreSQL is reached, told what is wanted of it, and blamed.

Durability: a statement that commits returns once its log is on disk, and on that of
every synchronous standby; no setting of server, role or URL makes this service wait
for less (docs/decisions/0023).
"""

import contextlib
import re
import select
from collections.abc import Sequence
from typing import Final, NamedTuple, cast

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.conninfo import make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.postgres.faults import MISSING, errors_as_ours, reason_of, shortened
from plantstore.storage.postgres.pipeline import Pipeline, Statement
from plantstore.storage.postgres.url import Server

# How long the client waits beyond the server's own statement_timeout, which comes
# first unless the server does not answer at all; and then for it to hear a cancellation.
GRACE_SECONDS: Final = 2

# How long a new connection may take to be told how it is to be used, and a server to tell its
# position.
SETTLE_SECONDS: Final = 5
ASK_SECONDS: Final = 3

# The turn about bitmaps: a planner that knows too little of a table would read all plants of a
# tag and sort them, for each page. The keepalives: a server that does not hear of the end of a
# client would keep its locks for hours.
_SETTLE: Final = """
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
_INSPECT: Final = """
SELECT current_setting('statement_timeout'), current_setting('fsync', true),
    current_setting('server_encoding')
"""
# Without senders of the log, commits wait for nobody, whatever the names say.
_NAMES: Final = """
CASE current_setting('max_wal_senders', true) WHEN '0' THEN ''
ELSE current_setting('synchronous_standby_names', true) END
"""
_STANDBYS: Final = f"SELECT {_NAMES}"

# A timeline is the first eight digits of the name of a file of the log.
_TIMELINE: Final = """
CASE WHEN NOT pg_is_in_recovery() THEN
    ('x' || substr(pg_walfile_name(pg_current_wal_lsn()), 1, 8))::bit(32)::int END
"""
_IS_PRIMARY: Final = "NOT pg_is_in_recovery() AND current_setting('transaction_read_only') = 'off'"

# What is asked for a position: the second where the first is not there or not allowed, and so on.
_POSITIONS: Final = (
    f"SELECT {_IS_PRIMARY}, system_identifier, {_TIMELINE}, {_NAMES} FROM pg_control_system()",
    f"SELECT {_IS_PRIMARY}, NULL, {_TIMELINE}, {_NAMES}",
    f"SELECT current_setting('transaction_read_only') = 'off', NULL, NULL, {_NAMES}",
)

_READ_ONLY: Final = (b"default_transaction_read_only", b"in_hot_standby")

UNREACHABLE: Final = "The database cannot be reached"

# How engines refuse functions that they have not.
_NOT_THERE: Final = (*MISSING, errors.ObjectNotInPrerequisiteState, errors.InternalError_)

_ANY: Final = {"target_session_attrs": "any"}

_MILLISECONDS: Final = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


class Position(NamedTuple):
    """What a server says of itself.

    Attributes:
        is_primary: whether it takes writes, as far as it knows.
        system: the identifier of its cluster; None where the engine has none.
        timeline: of the log that it writes; 0 for a standby, or where the engine has none.
        standbys: for how many synchronous standbys its commits wait.

    """

    is_primary: bool
    system: int | None
    timeline: int
    standbys: int


class Connection(psycopg.Connection[TupleRow]):
    """A connection to PostgreSQL whose every wait has an end.

    `wait_seconds` bounds what a statement takes, on this side too: the server's own
    statement_timeout does not help when the server hangs, or waits for its standby.
    """

    wait_seconds: float | None = None
    server: Server
    position: Position
    made_at = 0.0
    is_given_up = False

    # Whether this side ended it, for an answer that must not be relied upon.
    is_rejected = False

    # How many synchronous standbys a commit must stand on.
    standbys_min = 0

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._lonely_commits = 0
        self._position_query = 0
        self._pipelined = Pipeline(self)
        self.add_notice_handler(self._note)

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Do what psycopg's own does, within `wait_seconds`; past it, the connection ends."""
        try:
            seconds = self.wait_seconds if timeout is None else timeout
            return super().wait(self._until_given_up(gen), interval, seconds)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                if not self.is_given_up:
                    # Else a session that waits for a standby would keep its place, and its locks.
                    with contextlib.suppress(psycopg.Error):
                        self.cancel_safe(timeout=GRACE_SECONDS)
                self.pgconn.finish()
            raise

    def give_up(self) -> None:
        """End the connection from another thread: now if it waits, else before its next use."""
        self.is_given_up = True

    def _until_given_up(self, gen: PQGen[RV]) -> PQGen[RV]:
        """Go on as psycopg does, which comes by at each event and each interval."""
        try:
            wanted = next(gen)
            while True:
                ready = yield wanted
                if self.is_given_up:
                    raise psycopg.OperationalError("the server is an outdated primary")
                wanted = gen.send(ready)
        except StopIteration as done:
            return cast("RV", done.value)

    def execute_durably(self, query: str, bindings: Sequence[object] = ()) -> list[TupleRow]:
        """Execute a statement that commits by itself, and return its rows.

        Raises:
            OperationalError: the commit stands on too few standbys, or that cannot be told.

        """
        if not self.standbys_min:
            cursor = self.execute(query.encode(), bindings, binary=True)
            return cursor.fetchall() if cursor.description else []
        # The server reads a changed configuration before each statement, so also between these.
        rows, [(names,)] = self._pipelined.execute(Statement(query, bindings), Statement(_STANDBYS))
        self._insist_on_standbys(names)
        return rows

    def insist_on_standbys(self) -> None:
        """See on how many standbys the last commit stands.

        Raises:
            OperationalError: on too few, or that cannot be told.

        """
        if self.standbys_min:
            [(names,)] = self.execute(_STANDBYS)
            self._insist_on_standbys(names)

    def _insist_on_standbys(self, names: str | None) -> None:
        standbys = standbys_in(names or "")
        if standbys < self.standbys_min:
            self._reject()
            raise psycopg.OperationalError(_too_few(standbys, self.standbys_min))

    def ask_position(self) -> Position:
        """Ask the server for its position.

        Raises:
            StoreUnavailableError: it does not tell, and the connection ends.

        """
        try:
            with errors_as_ours(UNREACHABLE):
                return self._ask_position()
        except StoreUnavailableError as error:
            error.reason = shortened(f"{self.server.name}: {error.reason}")
            self.close()
            raise
        except BaseException:
            self.close()
            raise

    def _ask_position(self) -> Position:
        while True:
            try:
                [answer] = self.execute(_POSITIONS[self._position_query])
            except _NOT_THERE:
                if self._position_query + 1 == len(_POSITIONS):
                    raise
                self._position_query += 1
            else:
                is_primary, system, timeline, names = answer
                return Position(is_primary, system, timeline or 0, standbys_in(names or ""))

    def is_open(self) -> bool:
        """Tell whether the connection is open, and the server did not hang up meanwhile."""
        poll = select.poll()
        try:
            poll.register(self.pgconn.socket, select.POLLIN)
            while poll.poll(0):
                self.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return self.pgconn.transaction_status == TransactionStatus.IDLE

    def check(self) -> None:
        """Look at what the server told beside its last answers.

        A commit whose wait for the standbys was cancelled is done on the primary
        alone, and comes back as done, with a warning. A server that turned
        read-only tells so (https://www.postgresql.org/docs/current/libpq-status.html):
        another one takes the writes now, and what this one says may be old.

        Raises:
            OperationalError: the answers must not be relied upon. The connection ends.

        """
        reason = None
        if self._lonely_commits:
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
        self._lonely_commits += notice.source_function == "SyncRepWaitForLSN"


def connect(
    server: Server, *, is_bounded: bool = True, standbys_min: int = 0, for_changes: bool = False
) -> Connection:
    """Open a connection that commits each statement by itself, durably.

    Args:
        server: as `servers_of` returns it.
        is_bounded: whether a statement is given up after a time; else it may take
            as long as it takes.
        standbys_min: how many synchronous standbys a commit must stand on.
        for_changes: whether it is of no use with fewer.

    Raises:
        StoreUnreachableError: the server cannot be reached, or takes no writes.
        StoreUnavailableError: what it is told to do with them is not safe.

    """
    connection = _open(server)
    try:
        connection.wait_seconds = SETTLE_SECONDS
        connection.position = connection.ask_position()
        connection.standbys_min = standbys_min
        if for_changes:
            _insist_on_standbys(connection)
        _settle(connection, is_bounded=is_bounded)
    except BaseException:
        connection.close()
        raise
    return connection


def connect_to_ask(server: Server, *, is_alone: bool) -> Connection:
    """Open a connection on which nothing but the position is asked of a server.

    Any kind of server is, unless it is alone: its name may lead to several.

    Raises:
        StoreUnreachableError: the server cannot be reached.

    """
    any_kind = server._replace(conninfo=make_conninfo(server.conninfo, **_ANY))
    connection = _open(server if is_alone else any_kind)
    connection.wait_seconds = ASK_SECONDS
    return connection


def _open(server: Server) -> Connection:
    try:
        connection = Connection.connect(server.conninfo, autocommit=True)
    except psycopg.OperationalError as error:
        reason = shortened(f"{server.name}: {reason_of(error)}")
        raise StoreUnreachableError(UNREACHABLE, reason) from error
    connection.server = server
    return connection


def _insist_on_standbys(connection: Connection) -> None:
    standbys, standbys_min = connection.position.standbys, connection.standbys_min
    if standbys < standbys_min:
        raise StoreUnreachableError(
            "The database has too few synchronous standbys",
            f"{connection.server.name}: {_too_few(standbys, standbys_min)}",
        )


def _settle(connection: Connection, *, is_bounded: bool) -> None:
    """Tell a new connection how it is to be used, and see whether that is safe."""
    with errors_as_ours(UNREACHABLE):
        connection.execute(_SETTLE)
        [(statement_timeout, fsync, encoding)] = connection.execute(_INSPECT)
        if not is_bounded:
            connection.execute("SET statement_timeout = 0")
    connection.wait_seconds = _seconds(statement_timeout) + GRACE_SECONDS if is_bounded else None
    if fsync == "off":
        raise StoreUnavailableError(
            "The database runs with fsync = off: a power cut would lose what was answered"
        )
    if encoding != "UTF8":
        raise StoreUnavailableError(f"The database's encoding is {encoding}, not UTF8")


def _too_few(standbys: int, standbys_min: int) -> str:
    return f"its commits wait for {standbys} synchronous standbys, and must for {standbys_min}"


def _seconds(duration: str) -> float:
    """Read a duration as a server shows it; one without a unit is in milliseconds."""
    shown = re.fullmatch(r"(\d+)([a-z]*)", duration)
    if shown is None or shown[2] not in _MILLISECONDS:
        raise StoreUnavailableError(UNREACHABLE, f"its statement_timeout is {duration}")
    return int(shown[1]) * _MILLISECONDS[shown[2]] / 1000


def standbys_in(names: str) -> int:
    """Return for how many standbys a commit waits, of `synchronous_standby_names`.

    https://www.postgresql.org/docs/current/runtime-config-replication.html has its forms.
    """
    number = re.match(r"\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(", names, re.IGNORECASE)
    return int(number[1]) if number else int(bool(names.strip()))
