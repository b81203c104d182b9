"""Whether what stands before PostgreSQL leaves each connection its session.

A pooler that hands out a session for each transaction, or statement, mixes up what this
service sets in a session and prepares in it: plants would be stored under settings that do
not wait for the disk.
"""

import contextlib
from typing import Final

import psycopg

from plantstore.errors import StoreUnavailableError
from plantstore.storage.postgres.connection import Connection, connect
from plantstore.storage.postgres.faults import reason_of

# Transactions that are opened beside a connection, to take the session that it had.
_OTHERS: Final = 4

_WHO: Final = "SELECT pg_backend_pid()"
_NO_SESSIONS: Final = (
    "The pooler before the database does not leave each connection its session: set its"
    " pool_mode to session"
)


def insist_on_sessions(connection: Connection) -> None:
    """See whether a connection keeps its session while others want one.

    A connection without a pooler is told by the id of its process, which its server also
    tells at the start.

    Raises:
        StoreUnavailableError: it does not keep it.

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
