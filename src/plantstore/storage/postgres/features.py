"""Finds the optional features of an engine, and writes markers to its log.

A transaction that writes nothing does not wait for a standby. But its result may depend on the
writes of other transactions: on the deletion of a plant, for example. So it writes a marker to
the log. Its commit then waits until everything before the marker is on the standby, too.
"""

import random
from typing import Final, NamedTuple

from plantstore.plants import ID_MIN
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.faults import MISSING

# A message in the log. It changes no table.
_WRITE_MESSAGE: Final = "SELECT pg_logical_emit_message(true, 'plantstore', '')"

# A row of a table, for engines without such messages.
_WRITE_ROW: Final = """
INSERT INTO plantstore_markers (slot, number) VALUES (%s, 1)
ON CONFLICT (slot) DO UPDATE SET number = plantstore_markers.number + 1
"""

# The number of these rows, and of those that count plants. Transactions that update the same row
# wait for each other.
_ROWS: Final = 64

# The server knows the size of a text without reading it.
SELECT_SIZES: Final = """
SELECT id, octet_length(name), octet_length(tag) FROM plants WHERE id = ANY(%b::bigint[])
"""
LOCK: Final = f"{SELECT_SIZES} ORDER BY id FOR UPDATE"


class Features(NamedTuple):
    """The optional features of an engine, and what a store chose.

    Attributes:
        has_messages: whether it can write a message to its log.
        locks_many: whether it can lock several rows in one statement.
        slot: of the row that the store adds to, to count plants.

    """

    has_messages: bool
    locks_many: bool
    slot: int


def find_features(connection: Connection) -> Features:
    """Find out which features an engine supports, by trying them. Nothing is changed."""
    return Features(
        has_messages=_works(connection, _WRITE_MESSAGE),
        locks_many=_works(connection, LOCK, list(range(ID_MIN, ID_MIN + 64))),
        slot=random.randrange(_ROWS),  # noqa: S311
    )


def marker(features: Features) -> tuple[str, tuple[int, ...]]:
    """Return a statement that writes a marker to the log, and its values."""
    if features.has_messages:
        return _WRITE_MESSAGE, ()
    return _WRITE_ROW, (random.randrange(_ROWS),)  # noqa: S311


def _works(connection: Connection, statement: str, *values: object) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode(), values, binary=True)
    except MISSING:
        return False
    return True
