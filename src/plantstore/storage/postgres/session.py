"""A connection to PostgreSQL that never waits forever and never confirms an unsafe commit.

Durability: a commit returns after its log is on the disk of the primary, and of every
synchronous standby. No setting of the server, the role or the URL can weaken this.

A connection pooler in front of PostgreSQL may assign a session for each transaction or statement.
Then the settings and prepared statements of this service end up in the wrong sessions, and plants
would be stored with settings that do not wait for the disk. So each connection is also checked for
such a pooler.

Migrations: each transaction that writes reads the version of the schema first. So it holds a lock
on the table of versions until it ends (ACCESS SHARE). A migration locks this table first, too, and
against everybody else (ACCESS EXCLUSIVE). So a migration waits for the transactions that have
begun. Those that begin during it wait for its end, and then see the new version: READ COMMITTED
takes the snapshot of a statement after its locks. Since both lock this table before all others,
there are no deadlocks.

Errors of PostgreSQL are translated by their SQLSTATE, never by their message
(https://www.postgresql.org/docs/current/errcodes-appendix.html). An unknown SQLSTATE counts as a
fault of the server.
"""

import contextlib
import math
import re
import select
from collections.abc import Callable, Iterator
from typing import Final, NoReturn

import psycopg
from psycopg import errors
from psycopg.abc import RV, Params, PQGen
from psycopg.pq import TransactionStatus
from psycopg.pq.abc import PGconn
from psycopg.rows import TupleRow

from plantstore.errors import BatchRefusedError, NothingDoneError, StoreUnavailableError, shorten
from plantstore.storage.migrate import require_same

ENGINE: Final = "postgres"

# How long the client waits after the server's own statement_timeout, which normally ends a
# statement first. The same time is allowed for a cancellation.
GRACE_SECONDS: Final = 2

UNREACHABLE: Final = "The database cannot be reached"
READ_ONLY: Final = "The database is read-only"

# Older servers do not report to their clients that they have become read-only.
VERSION_MIN: Final = 14

# How long a statement that configures a new connection may take.
CONFIGURE_SECONDS: Final = 5

# Settings of each session. A setting of the operator is kept if it is safe.
# enable_bitmapscan: with poor statistics, the planner would read and sort all plants of a tag for
# each page. tcp_keepalives: a server that does not notice the end of a client would keep the
# client's locks for hours.
_CONFIGURE: Final = """
SELECT set_config(name, value, false) FROM (VALUES
    ('synchronous_commit', CASE current_setting('synchronous_commit')
        WHEN 'remote_apply' THEN 'remote_apply' ELSE 'on' END),
    ('lock_timeout', CASE current_setting('lock_timeout')
        WHEN '0' THEN '5s' ELSE current_setting('lock_timeout') END),
    ('statement_timeout', CASE current_setting('statement_timeout')
        WHEN '0' THEN '10s' ELSE current_setting('statement_timeout') END),
    ('enable_bitmapscan', 'off'),
    ('tcp_keepalives_idle', '30'), ('tcp_keepalives_interval', '10'), ('tcp_keepalives_count', '3')
) AS wanted (name, value)
"""
# The standbys that commits wait for. If the server cannot send its log to standbys, commits wait
# for none, whatever the setting says.
_STANDBY_NAMES: Final = """
CASE current_setting('max_wal_senders') WHEN '0' THEN ''
ELSE current_setting('synchronous_standby_names') END
"""
_STANDBYS: Final = f"SELECT {_STANDBY_NAMES}"
# The setting of a timeout is in milliseconds.
_INSPECT: Final = f"""
SELECT (SELECT setting::bigint FROM pg_settings WHERE name = 'statement_timeout'),
    current_setting('fsync'), current_setting('server_encoding'), {_STANDBY_NAMES}
"""

# The version for a statement that commits by itself. An index scan for one row takes less than a
# function of all rows. As the first part of the statement, its table is locked first.
WITH_VERSION: Final = """
WITH known AS (SELECT version FROM plantstore_migrations ORDER BY version DESC LIMIT 1)
"""
_VERSION: Final = "SELECT max(version) FROM plantstore_migrations"

# Parameters that a server reports without being asked: that it refuses writes, or is a standby.
_READ_ONLY: Final = b"default_transaction_read_only"
_STANDBY: Final = b"in_hot_standby"


class Connection(psycopg.Connection[TupleRow]):
    """A connection to PostgreSQL with a time limit for every wait.

    Attributes:
        wait_seconds: the limit for a statement on the client's side; None for no limit. The
            server's statement_timeout does not help if the server hangs, or waits for a
            standby.
        server: host and port.
        made_at: when its opening began, by a clock that never goes back.
        used_at: when it was last used without an error, by the same clock.
        standbys: how many synchronous standbys a commit waited for at the last count.
        standbys_min: minimum number of them.
        grace_seconds: how long to wait after the server's timeout, and for a cancellation.
        takes_writes: whether the server took writes when the connection was opened.

    """

    wait_seconds: float | None = CONFIGURE_SECONDS
    made_at = used_at = -math.inf
    standbys = standbys_min = 0
    grace_seconds: float = GRACE_SECONDS
    takes_writes = True

    def __init__(self, pgconn: PGconn) -> None:
        super().__init__(pgconn)
        self.server = f"{self.info.host}:{self.info.port}"
        self._unreplicated_commits = 0
        self.add_notice_handler(self._note)

    def wait(self, gen: PQGen[RV], interval: float = 0.1, timeout: float | None = None) -> RV:
        """Wait as psycopg does, but at most `wait_seconds`. After a timeout, close."""
        try:
            return super().wait(gen, interval, self.wait_seconds if timeout is None else timeout)
        except psycopg.OperationalError:
            if self.pgconn.transaction_status == TransactionStatus.ACTIVE:
                # Without a cancellation, a session that waits for a standby would continue to
                # wait, and keep its locks.
                with contextlib.suppress(psycopg.Error):
                    self.cancel_safe(timeout=self.grace_seconds)
                self.pgconn.finish()
            raise

    def configure(self, *, has_timeout: bool) -> None:
        """Configure a new connection, and check that the server is safe to use.

        Args:
            has_timeout: whether statements have a time limit.

        Raises:
            StoreUnavailableError: the settings of the server are not safe.

        """
        if self.info.server_version < VERSION_MIN * 10_000:
            raise StoreUnavailableError(
                f"The database needs PostgreSQL {VERSION_MIN} or newer, and its server has"
                f" {self.info.parameter_status('server_version')}"
            )
        with translate_errors(UNREACHABLE):
            self.execute(_CONFIGURE)
            [(statement_timeout, fsync, encoding, names)] = self.execute(_INSPECT)
            if not has_timeout:
                self.execute("SET statement_timeout = 0")
        self.wait_seconds = statement_timeout / 1000 + self.grace_seconds if has_timeout else None
        if fsync == "off":
            raise StoreUnavailableError(
                "The database runs with fsync = off: a power cut would lose confirmed changes"
            )
        if encoding != "UTF8":
            raise StoreUnavailableError(f"The database's encoding is {encoding}, not UTF8")
        self.standbys = standbys_in(names)

    def fetch(self, statement: str, values: Params = ()) -> list[TupleRow]:
        """Execute a statement that has rows, and return them."""
        return self.execute(statement, values, binary=True).fetchall()

    def count_standbys(self) -> int:
        """Return how many standbys a commit waits for now."""
        # The server has read a configuration that changed during the last commit.
        [(names,)] = self.execute(_STANDBYS)
        self.standbys = standbys_in(names)
        return self.standbys

    def require_standbys(self) -> None:
        """Check how many standbys the last commit waited for.

        Raises:
            OperationalError: there were too few, or this is unknown.

        """
        if self.standbys_min and self.count_standbys() < self.standbys_min:
            self._reject(self._too_few())

    def refuse_too_few(self) -> None:
        """Raise NothingDoneError if there were too few standbys at the last count."""
        if self.standbys < self.standbys_min:
            reason = f"{self.server}: {self._too_few()}"
            raise NothingDoneError("The database has too few synchronous standbys", reason)

    def _too_few(self) -> str:
        least = self.standbys_min
        return f"its commits wait for {self.standbys} synchronous standbys, and must for {least}"

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
        Another server may be the primary then, and the results of this one outdated.

        Raises:
            OperationalError: the results cannot be trusted. The connection is closed.

        """
        if self._unreplicated_commits:
            self._reject("the wait for the synchronous standby was cancelled")
        if self._is_on(_STANDBY) or (self.takes_writes and self._is_on(_READ_ONLY)):
            self._reject("the server takes no writes any more")

    def _is_on(self, parameter: bytes) -> bool:
        return self.pgconn.parameter_status(parameter) == b"on"

    def _reject(self, reason: str) -> NoReturn:
        self.close()
        raise psycopg.OperationalError(reason)

    def _note(self, notice: errors.Diagnostic) -> None:
        self._unreplicated_commits += notice.source_function == "SyncRepWaitForLSN"


@contextlib.contextmanager
def fenced(connection: Connection) -> Iterator[None]:
    """Run the block in a transaction that may write. The caller checks the standbys.

    Raises:
        NothingDoneError: the schema has another version. The block was not run.

    """
    with connection.transaction():
        [(version,)] = connection.execute(_VERSION)
        require_same(ENGINE, version)
        yield


def standbys_in(names: str) -> int:
    """Return how many standbys a commit waits for, by `synchronous_standby_names`.

    https://www.postgresql.org/docs/current/runtime-config-replication.html describes its forms.
    """
    number = re.match(r"\s*(?:(?:FIRST|ANY)\s+)?(\d+)\s*\(", names, re.IGNORECASE)
    return int(number[1]) if number else int(bool(names.strip()))


# A failed attempt in a message of psycopg about several.
_ATTEMPT: Final = re.compile(
    r"^- host: '(.*?)', port: '?(.*?)'?, hostaddr: .*?: (.*)$", re.MULTILINE
)

# What libpq says about a server that has not the wanted `target_session_attrs`.
_REFUSALS: Final = ("session is read-only", "server is in hot standby mode")


def open_connection(conninfo: str) -> Connection:
    """Open a connection on which each statement commits by itself. It is not configured yet.

    Raises:
        NothingDoneError: no server of the connection string can be reached and used. Its
            message is READ_ONLY if the servers that can be reached take no writes.

    """
    try:
        return Connection.connect(conninfo, autocommit=True)
    except psycopg.OperationalError as error:
        reasons = [
            f"{host}:{port or 5432}: {core_of(said)}"
            for host, port, said in _ATTEMPT.findall(str(error))
        ]
        reason = "; ".join(reasons) or reason_of(error)
        is_read_only = any(text in reason for text in _REFUSALS) and "timeout" not in reason
        what = READ_ONLY if is_read_only else UNREACHABLE
        raise NothingDoneError(what, shorten(reason, REASON_CHARACTERS_MAX)) from error


# How many other connections begin a transaction, so that a pooler gives them the session.
_OTHERS: Final = 4

_WHO: Final = "SELECT pg_backend_pid()"
_NO_SESSIONS: Final = (
    "The pooler in front of the database does not keep one session per connection: set its"
    " pool_mode to session"
)


def require_sessions(connection: Connection, connect: Callable[[], Connection]) -> None:
    """Check that a connection keeps its session while other connections need one.

    Without a pooler, the id of the session's process is the one that the server reported when
    the connection was opened. Then there is nothing else to check.

    Args:
        connection: to check.
        connect: opens another connection to the same server.

    Raises:
        StoreUnavailableError: the connection does not keep its session.

    """
    if _process(connection) == connection.pgconn.backend_pid:
        return
    with contextlib.ExitStack() as stack:
        try:
            mine = _process(connection)
            for _ in range(_OTHERS):
                other = stack.enter_context(contextlib.closing(connect()))
                other.execute("BEGIN")
                if _process(other) == mine or _process(connection) != mine:
                    raise StoreUnavailableError(_NO_SESSIONS)
        except psycopg.Error as error:
            raise StoreUnavailableError(_NO_SESSIONS, reason_of(error)) from error


def _process(connection: Connection) -> int:
    [(process,)] = connection.execute(_WHO)
    return int(process)


# Maximum length of a reason in a message for operators.
REASON_CHARACTERS_MAX: Final = 200

# The class of errors that only a programming error of ours can cause, such as syntax, and those
# errors of the class that an operator can cause.
_OUR_CLASS: Final = "42"
_MISSING: Final = (errors.UndefinedColumn, errors.UndefinedTable)

# The classes of errors that a single row can cause: the operator may have added a constraint, a
# trigger or a view that refuses it, or whose data types cannot hold it.
_ROW_CLASSES: Final = ("22", "23", "27", "44", "P0")


@contextlib.contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise StoreUnavailableError for faults of the server; let programming errors pass.

    Args:
        what: the message.

    Raises:
        BatchRefusedError: a single row may have caused the error.
        StoreUnavailableError: the server caused the error.

    """
    try:
        yield
    except psycopg.Error as error:
        kind = (error.sqlstate or "")[:2]
        if kind in _ROW_CLASSES:
            raise BatchRefusedError(what, reason_of(error)) from error
        if isinstance(error, errors.InsufficientPrivilege):
            raise lacking(what, str(error.diag.message_primary)) from error
        # Without an SQLSTATE, a plain DatabaseError is from libpq, which has lost the connection.
        is_ours = kind == _OUR_CLASS or not (error.sqlstate or type(error) is psycopg.DatabaseError)
        if is_ours and not isinstance(error, (psycopg.OperationalError, *_MISSING)):
            raise
        raise StoreUnavailableError(what, reason_of(error)) from error


def lacking(what: str, right: str) -> StoreUnavailableError:
    """Return the error for a right that the role of the service lacks.

    Its message names the right, also in responses: only the owner of the tables can correct it.
    """
    return StoreUnavailableError(
        f"{what}: {right}; run plantstore migrate --grant-to ROLE as the owner",
        f"SQLSTATE {errors.InsufficientPrivilege.sqlstate}",
    )


@contextlib.contextmanager
def after_a_commit() -> Iterator[None]:
    """Raise refusals of a row, or of the whole batch, as faults of the server.

    Errors that say that nothing was done would be wrong here: a part is committed already.
    """
    try:
        yield
    except NothingDoneError as error:
        raise StoreUnavailableError(error.message, error.reason) from error
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] in _ROW_CLASSES:
            raise psycopg.OperationalError(reason_of(error)) from error
        raise


def reason_of(error: psycopg.Error) -> str:
    """Return the message of the server or of libpq in one line, with its SQLSTATE."""
    said = error.diag.message_primary
    if said is None:
        # A message of libpq begins with the server's name, and may have more lines with advice.
        said = core_of(str(error).partition("\n")[0])
    return f"{said} ({error.sqlstate})" if error.sqlstate else said


def core_of(message: str) -> str:
    """Return the end of a line of libpq, which says what the server said."""
    return message.rpartition("failed: ")[2].removeprefix("FATAL:  ")
