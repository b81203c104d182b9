"""How PostgreSQL is reached, told what is wanted of it, and blamed.

Durability: a statement that commits returns once its log is on disk, and on that of
every synchronous standby; no setting of server, role or URL makes this service wait
for less (docs/decisions/0023).
"""

import contextlib
import re
import select
from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Final

import psycopg
from psycopg import errors
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from plantstore.errors import StoreUnavailableError, StoreUnreachableError, UsageError

# What a URL leaves out. Several hosts are tried in turn for one that takes writes; a
# connection on which nothing comes back is given up after a minute.
PARAMETERS_DEFAULT: Final[Mapping[str, str | int]] = MappingProxyType(
    {
        "application_name": "plantstore",
        "connect_timeout": 3,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "tcp_user_timeout": 60_000,
        "target_session_attrs": "read-write",
    }
)

# What every session has from its start. A pooler that would hand sessions from one client to
# another in between, and with them what is set below, refuses it.
_OPTIONS: Final = r"-cdefault_transaction_isolation=read\ committed"

# How long the client waits beyond the server's own statement_timeout, which comes
# first unless the server does not answer at all; and then for it to hear a cancellation.
GRACE_SECONDS: Final = 2

# How long a new connection may take to be told how it is to be used.
SETTLE_SECONDS: Final = 5

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
SELECT extract(epoch FROM current_setting('statement_timeout')::interval)::float,
    current_setting('fsync', true), current_setting('server_encoding')
"""

_READ_ONLY: Final = (b"default_transaction_read_only", b"in_hot_standby")

UNREACHABLE: Final = "The database cannot be reached"

# What an operator did to the server or the database, or what is wrong with them. With these,
# nothing is asked for that the service does not ask for every day.
_FAULTS_OF_THE_SERVER: Final = (
    psycopg.OperationalError,
    psycopg.InternalError,
    errors.FeatureNotSupported,  # a plan that is older than its table
    errors.InsufficientPrivilege,
    errors.InvalidSchemaName,
    errors.UndefinedColumn,
    errors.UndefinedTable,
)


class Connection(psycopg.Connection[TupleRow]):
    """A connection to PostgreSQL whose every wait has an end.

    `wait_seconds` bounds what a statement takes, on this side too: the server's own
    statement_timeout does not help when the server hangs, or waits for its standby.
    """

    wait_seconds: float | None = None

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self._lonely_commits = 0
        self.add_notice_handler(self._note)

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Do what psycopg's own does, within `wait_seconds`; past it, the connection ends."""
        try:
            return super().wait(gen, interval, self.wait_seconds if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                # Else a session that waits for a standby would keep its place, and its locks.
                with contextlib.suppress(psycopg.Error):
                    self.cancel_safe(timeout=GRACE_SECONDS)
                self.pgconn.finish()
            raise

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
            self.close()
            raise psycopg.OperationalError(reason)

    def _note(self, notice: errors.Diagnostic) -> None:
        self._lonely_commits += notice.source_function == "SyncRepWaitForLSN"


def parse_url(url: str) -> str:
    """Read the URL of a database, as libpq does, and return it with what it leaves out.

    Raises:
        UsageError: it is no URL of PostgreSQL. It is not quoted: it may hold a password.

    """
    try:
        given = conninfo_to_dict(url)
    except psycopg.ProgrammingError:
        raise _unreadable() from None
    # What libpq makes of a password with a special character in it.
    if "@" in f"{given.get('host')}{given.get('dbname')}" or not re.fullmatch(
        r"[\d,]*", str(given.get("port", ""))
    ):
        raise _unreadable()
    ours = {"client_encoding": "UTF8", "options": f"{given.get('options') or ''} {_OPTIONS}"}
    return make_conninfo("", **{**PARAMETERS_DEFAULT, **given, **ours})


def connect(conninfo: str, *, is_bounded: bool = True) -> Connection:
    """Open a connection that commits each statement by itself, durably.

    Args:
        conninfo: as `parse_url` returns it.
        is_bounded: whether a statement is given up after a time; else it may take
            as long as it takes.

    Raises:
        StoreUnreachableError: no server can be reached that takes writes.
        StoreUnavailableError: what it is told to do with them is not safe.

    """
    try:
        connection = Connection.connect(conninfo, autocommit=True)
    except psycopg.OperationalError as error:
        raise StoreUnreachableError(UNREACHABLE, _reason(error)) from error
    try:
        _settle(connection, is_bounded=is_bounded)
    except BaseException:
        connection.close()
        raise
    return connection


def _settle(connection: Connection, *, is_bounded: bool) -> None:
    """Tell a new connection how it is to be used, and see whether that is safe."""
    connection.wait_seconds = SETTLE_SECONDS
    with errors_as_ours(UNREACHABLE):
        connection.execute(_SETTLE)
        [(statement_seconds, fsync, encoding)] = connection.execute(_INSPECT)
        if not is_bounded:
            connection.execute("SET statement_timeout = 0")
    connection.wait_seconds = statement_seconds + GRACE_SECONDS if is_bounded else None
    if fsync == "off":
        raise StoreUnavailableError(
            "The database runs with fsync = off: a power cut would lose what was answered"
        )
    if encoding != "UTF8":
        raise StoreUnavailableError(f"The database's encoding is {encoding}, not UTF8")


def _unreadable() -> UsageError:
    return UsageError(
        "The database's URL cannot be read; expected postgresql://USER@HOST:PORT/NAME, in which"
        " what is special in a password is percent-encoded"
    )


@contextlib.contextmanager
def errors_as_ours(what: str) -> Iterator[None]:
    """Raise what the server is to blame for as StoreUnavailableError; a bug stays a bug."""
    try:
        yield
    except _FAULTS_OF_THE_SERVER as error:
        raise StoreUnavailableError(what, _reason(error)) from error


def _reason(error: psycopg.Error) -> str:
    """Return what the server said, or libpq, in one line."""
    return error.diag.message_primary or " ".join(str(error).split())
