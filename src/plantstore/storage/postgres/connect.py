"""Opens connections to PostgreSQL, and configures them.

A connection pooler in front of PostgreSQL may assign a session for each transaction or statement.
Then the settings and prepared statements of this service end up in the wrong sessions, and plants
would be stored with settings that do not wait for the disk. So each connection is also checked for
such a pooler.
"""

import contextlib
import re
from typing import Final

import psycopg
from psycopg.conninfo import make_conninfo

from plantstore.errors import StoreUnavailableError, StoreUnreachableError
from plantstore.storage.postgres.connection import (
    GRACE_SECONDS,
    UNREACHABLE,
    Connection,
    too_few,
)
from plantstore.storage.postgres.faults import reason_of, shortened, translate_errors
from plantstore.storage.postgres.url import Server

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
_INSPECT: Final = """
SELECT current_setting('statement_timeout'), current_setting('fsync', true),
    current_setting('server_encoding')
"""

_ANY_KIND: Final = {"target_session_attrs": "any"}

_MILLISECONDS: Final = {"": 1, "ms": 1, "s": 1000, "min": 60_000, "h": 3_600_000, "d": 86_400_000}


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
    any_kind = server._replace(conninfo=make_conninfo(server.conninfo, **_ANY_KIND))
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
    connection.wait_seconds = _seconds(statement_timeout) + GRACE_SECONDS if has_timeout else None
    if fsync == "off":
        raise StoreUnavailableError(
            "The database runs with fsync = off: a power cut would lose confirmed changes"
        )
    if encoding != "UTF8":
        raise StoreUnavailableError(f"The database's encoding is {encoding}, not UTF8")


def _seconds(duration: str) -> float:
    """Parse a duration of the server. The unit of a bare number is milliseconds."""
    shown = re.fullmatch(r"(\d+)([a-z]*)", duration)
    if shown is None or shown[2] not in _MILLISECONDS:
        raise StoreUnavailableError(UNREACHABLE, f"its statement_timeout is {duration}")
    return int(shown[1]) * _MILLISECONDS[shown[2]] / 1000


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
