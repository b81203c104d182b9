"""Checks that a connection pooler in front of PostgreSQL keeps one session per connection.

A pooler may assign a session for each transaction or statement instead. Then the settings and
prepared statements of this service end up in the wrong sessions, and plants would be stored with
settings that do not wait for the disk.
"""

import contextlib
from typing import Final

import psycopg

from plantstore.errors import StoreUnavailableError
from plantstore.storage.postgres.connect import connect
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.faults import reason_of

# How many other connections begin a transaction, so that a pooler gives them the session.
_OTHERS: Final = 4

_WHO: Final = "SELECT pg_backend_pid()"
_NO_SESSIONS: Final = (
    "The pooler in front of the database does not keep one session per connection: set its"
    " pool_mode to session"
)


def insist_on_sessions(connection: Connection) -> None:
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
