"""How PostgreSQL is reached, kept in reach, and blamed.

Durability: a statement that commits returns once its log is on disk, and on that of
every synchronous standby; no setting of server, role or URL makes this service wait
for less (docs/decisions/0023).
"""

import contextlib
import re
import select
import time
from collections.abc import Callable, Iterator, Mapping
from types import MappingProxyType
from typing import Final

import psycopg
from psycopg.abc import RV, PQGen
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.errors import Diagnostic, InsufficientPrivilege, InvalidSchemaName
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow
from psycopg.types.numeric import Int8BinaryDumper

from plantstore.errors import StoreUnavailableError, StoreUnreachableError, UsageError

# What a URL leaves out. Several hosts are tried in turn for one that takes writes; a
# connection that goes silent is given up after a minute.
PARAMETERS_DEFAULT: Final[Mapping[str, str | int]] = MappingProxyType(
    {
        "application_name": "plantstore",
        "connect_timeout": 3,
        "keepalives_idle": 30,
        "keepalives_interval": 10,
        "keepalives_count": 3,
        "target_session_attrs": "read-write",
    }
)

# How long the client waits beyond the server's own statement_timeout, which comes
# first unless the server does not answer at all.
GRACE_SECONDS: Final = 2

# How long a new connection may take to be told how it is to be used.
SETTLE_SECONDS: Final = 5

# How long a lost server is left alone, at first and at most, before it is tried again.
BACKOFF_SECONDS_MIN: Final = 0.05
BACKOFF_SECONDS_MAX: Final = 1.0

# A connection that was used within that time is not looked at before it is used again. The
# look would let go of the interpreter lock, and who then has it keeps it for milliseconds.
FRESH_SECONDS: Final = 1.0

# Without the turn about bitmaps, a planner that knows too little of a table reads all plants
# of a tag and sorts them, for each page.
_SETTLE: Final = """
SELECT
    set_config('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END, false),
    set_config('default_transaction_isolation', 'read committed', false),
    CASE WHEN current_setting('enable_bitmapscan', true) = 'on'
        THEN set_config('enable_bitmapscan', 'off', false) END,
    set_config('lock_timeout', CASE current_setting('lock_timeout')
        WHEN '0' THEN '5s' ELSE current_setting('lock_timeout') END, false),
    extract(epoch FROM set_config('statement_timeout', CASE current_setting('statement_timeout')
        WHEN '0' THEN '10s' ELSE current_setting('statement_timeout') END, false)::interval)::float,
    current_setting('fsync', true),
    current_setting('server_encoding')
"""

_UNREACHABLE: Final = "The database cannot be reached"


class Connection(psycopg.Connection[TupleRow]):
    """A connection to PostgreSQL whose every wait has an end.

    `wait_seconds` bounds what a statement takes, on this side too: the server's own
    statement_timeout does not help when it is the server that hangs. `warnings` are
    what the server warned of.
    """

    wait_seconds: float | None = None

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self.warnings: list[str] = []
        self.add_notice_handler(self._note)

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Do what psycopg's own does, within `wait_seconds`; a failure ends the connection."""
        try:
            return super().wait(gen, interval, self.wait_seconds if timeout is None else timeout)
        except (psycopg.OperationalError, psycopg.InternalError):
            self.pgconn.finish()
            raise

    def is_usable(self) -> bool:
        """Tell whether the connection is open, and the server did not hang up meanwhile."""
        poll = select.poll()
        try:
            poll.register(self.pgconn.socket, select.POLLIN)
            while poll.poll(0):
                self.pgconn.consume_input()
        except psycopg.OperationalError:
            return False
        return self.pgconn.transaction_status is TransactionStatus.IDLE

    def _note(self, notice: Diagnostic) -> None:
        if notice.severity_nonlocalized == "WARNING":
            self.warnings.append(notice.message_primary or "")


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
    return make_conninfo("", **{**PARAMETERS_DEFAULT, **given, "client_encoding": "UTF8"})


def connect(conninfo: str, *, is_bounded: bool = True) -> Connection:
    """Open a connection that commits each statement by itself, durably.

    Args:
        conninfo: as `parse_url` returns it.
        is_bounded: whether a statement is given up after a time; else it may take
            as long as it takes.

    Raises:
        StoreUnavailableError: no server can be reached that takes writes, or what
            it is told to do with them is not safe.

    """
    with errors_as_ours(_UNREACHABLE):
        connection = Connection.connect(conninfo, autocommit=True)
    try:
        _settle(connection, is_bounded=is_bounded)
    except BaseException:
        connection.close()
        raise
    return connection


def _settle(connection: Connection, *, is_bounded: bool) -> None:
    """Tell a new connection how it is to be used, and see whether that is safe."""
    # Without it, the type of a list would change with the size of its numbers.
    connection.adapters.register_dumper(int, Int8BinaryDumper)
    connection.wait_seconds = SETTLE_SECONDS
    with errors_as_ours(_UNREACHABLE):
        [(*_, statement_seconds, fsync, encoding)] = connection.execute(_SETTLE)
        if not is_bounded:
            connection.execute("SET statement_timeout = 0")
    connection.wait_seconds = statement_seconds + GRACE_SECONDS if is_bounded else None
    connection.warnings.clear()  # of what was before us, a new version of the collation, say
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
        self._reason = ""
        self._backoff_seconds = 0.0
        self._retry_at = 0.0
        self._used_at = 0.0

    @contextlib.contextmanager
    def using(self, what: str) -> Iterator[Connection]:
        """Give the connection; `what` says what failed if it then does.

        A warning fails too: a commit that gave up waiting for its standbys comes
        back as done, with a warning (https://www.postgresql.org/docs/current/
        warm-standby.html#SYNCHRONOUS-REPLICATION-HA).

        Raises:
            StoreUnreachableError: there is no connection; nothing was asked.
            StoreUnavailableError: the block failed with an error of the server's,
                or ended with a warning.

        """
        connection = self._connected()
        with errors_as_ours(what):
            yield connection
        self._used_at = self._monotonic()
        if connection.warnings:
            connection.close()
            raise StoreUnavailableError(what, "; ".join(connection.warnings))

    def close(self) -> None:
        """Hang up."""
        if self._connection is not None:
            self._connection.close()

    def _connected(self) -> Connection:
        if self._connection is not None:
            is_fresh = self._monotonic() - self._used_at < FRESH_SECONDS
            if not self._connection.closed and (is_fresh or self._connection.is_usable()):
                return self._connection
            self._connection.close()
            self._connection = None
        if self._monotonic() < self._retry_at:
            raise StoreUnreachableError(_UNREACHABLE, self._reason)
        try:
            self._connection = self._connect()
        except StoreUnavailableError as error:
            self._reason = error.reason or error.message
            self._backoff_seconds = min(
                max(2 * self._backoff_seconds, BACKOFF_SECONDS_MIN), BACKOFF_SECONDS_MAX
            )
            self._retry_at = self._monotonic() + self._backoff_seconds
            raise StoreUnreachableError(_UNREACHABLE, self._reason) from error
        self._backoff_seconds = 0.0
        return self._connection


@contextlib.contextmanager
def errors_as_ours(what: str) -> Iterator[None]:
    """Raise what the server is to blame for as StoreUnavailableError; a bug stays a bug."""
    try:
        yield
    except (
        psycopg.OperationalError,
        psycopg.InternalError,
        InsufficientPrivilege,
        InvalidSchemaName,
    ) as error:
        raise StoreUnavailableError(what, _reason(error)) from error


def _reason(error: psycopg.Error) -> str:
    """Return what the server said, or libpq, in one line."""
    return error.diag.message_primary or " ".join(str(error).split())
