"""Lets a process write only to a schema of the version that it knows.

Each transaction that writes reads the version of the schema first. So it holds a lock on the table
of versions until it ends (ACCESS SHARE). A migration locks this table first, too, and against
everybody else (ACCESS EXCLUSIVE). So a migration waits for the transactions that have begun. Those
that begin during it wait for its end, and then see the new version: READ COMMITTED takes the
snapshot of a statement after its locks.

Since both lock this table before all others, they never wait for each other in a circle.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

from plantstore.storage.migrate import require_same
from plantstore.storage.postgres.connection import Connection

ENGINE: Final = "postgres"

# The version for a statement that commits by itself. An index scan for one row takes less than a
# function of all rows. As the first part of the statement, its table is locked first.
WITH_VERSION: Final = """
WITH known AS (SELECT version FROM plantstore_migrations ORDER BY version DESC LIMIT 1)
"""

_VERSION: Final = "SELECT max(version) FROM plantstore_migrations"

_LOCK: Final = "LOCK TABLE plantstore_migrations IN ACCESS EXCLUSIVE MODE"


@contextlib.contextmanager
def fenced(connection: Connection) -> Iterator[None]:
    """Run the block in a transaction that may write. The caller checks the standbys.

    Raises:
        StoreUnreachableError: the schema has another version. The block was not run.

    """
    with connection.transaction():
        [(version,)] = connection.execute(_VERSION)
        require_same(ENGINE, version)
        yield


def keep_writers_out(connection: Connection) -> None:
    """Wait for the transactions that write, and let no other begin before this one has ended."""
    connection.execute(_LOCK)
