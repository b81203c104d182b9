"""Applies changes of plants: to them, to the index of their words, to their number, to the feed.

Most batches only create plants, under ids that are free. They are stored by one statement, which is
a transaction of its own: a trigger writes to all tables. So the thread that writes waits for the
interpreter once, and not for each of seven statements, while the event loop is busy. If an id is
taken, nothing is changed, and the batch is decided as all others are.
"""

from collections.abc import Sequence
from operator import itemgetter
from typing import Final

import apsw

from plantstore.changes import AllInSet, Change, Outcome, Result
from plantstore.decision import decide
from plantstore.plants import NewPlant
from plantstore.storage.migrate import newest_version
from plantstore.storage.sqlite.file import ENGINE
from plantstore.storage.sqlite.sqlite_feed import FEED, RECORD_CREATES, executor, record
from plantstore.storage.sqlite.sqlite_pages import select_by_id, to_json
from plantstore.storage.sqlite.word_index import FIRST, MERGE, index_words, row_of

_UPSERT: Final = """
INSERT INTO plants (id, name, tag, name_key, checksum)
SELECT value->>0, value->>1, value->>2, value->>3, value->>4 FROM jsonb_each(?) WHERE true
ON CONFLICT (id) DO UPDATE SET
    name = excluded.name, tag = excluded.tag, name_key = excluded.name_key,
    checksum = excluded.checksum
"""
_DELETE: Final = "DELETE FROM plants WHERE id IN (SELECT value FROM json_each(?))"
_COUNT: Final = "UPDATE totals SET plants = plants + ?"

# `plants` is JSONB: the row of each plant (`row_of`). `number` is their number, `set_name` the set
# of all of them, or NULL, and `version` is that of the schema. The view has no rows; it only has
# the trigger.
_PREPARE_CREATES: Final = f"""
PRAGMA temp_store = MEMORY;
CREATE TEMP VIEW creates (plants, number, set_name, version)
AS SELECT NULL, NULL, NULL, NULL WHERE false;
CREATE TEMP TRIGGER create_plants INSTEAD OF INSERT ON creates BEGIN
    SELECT RAISE(ABORT, 'another schema, or an index that is not complete')
    WHERE new.version <> {newest_version(ENGINE)} OR EXISTS ({FIRST});
    INSERT INTO plants (id, name, tag, name_key, checksum)
    SELECT value->>0, value->>1, value->>2, value->>3, value->>4
    FROM jsonb_each(new.plants);
    INSERT INTO plant_words (rowid, words)
    SELECT value->>0, value->>5 FROM jsonb_each(new.plants);
    {MERGE};
    UPDATE totals SET plants = plants + new.number;
    {RECORD_CREATES}
END
"""
_CREATE: Final = """
INSERT INTO creates
SELECT jsonb(:plants), :number, :set_name, user_version FROM pragma_user_version
"""


def prepare_creates(connection: apsw.Connection) -> None:
    """Prepare a connection for `create_plants`."""
    connection.execute(_PREPARE_CREATES)


def require_creates(connection: apsw.Connection) -> None:
    """Raise an error of SQLite if `create_plants` would fail: the schema is damaged."""
    values = {"plants": "[]", "number": 0, "set_name": None}
    connection.execute(f"EXPLAIN {_CREATE}", values, can_cache=False).fetchall()


def create_plants(connection: apsw.Connection, changes: Sequence[Change]) -> list[Result] | None:
    """Store a batch that only creates plants, in a transaction of its own.

    Returns:
        The results; None if nothing was changed, because the batch is empty or has other changes
        or an InSet, an id is taken or occurs twice, the set is closed, the schema has another
        version, the index of words is not complete, or the file is damaged.

    """
    set_name, plants = None, changes
    if isinstance(changes, AllInSet):
        set_name, plants = changes.set, changes.changes
    rows = [row_of(plant) for plant in plants if isinstance(plant, NewPlant)]
    if not rows or len(rows) < len(changes):
        return None
    rows.sort(key=itemgetter(0))  # the index of words is faster in order of id
    try:
        values = {"plants": to_json(rows), "number": len(rows), "set_name": set_name}
        connection.execute(_CREATE, values)
    except (apsw.ConstraintError, apsw.CorruptError):  # `write_changes` knows what is damaged
        return None
    return [Outcome.STORED] * len(rows)


def write_changes(connection: apsw.Connection, changes: Sequence[Change]) -> list[Result]:
    """Apply a batch of changes, in a transaction that the caller has begun."""
    changes = [*changes]
    stored = select_by_id(connection, [change.id for change in changes])
    closed = FEED.closed_of(executor(connection), changes)
    outcomes, difference = decide(changes, dict(stored), closed)
    rows = [row_of(plant) for plant in difference.new + difference.changed]
    old = [
        stored[id_] for id_ in (*(plant.id for plant in difference.changed), *difference.deleted)
    ]
    index_words(connection, old, rows)
    if rows:
        connection.execute(_UPSERT, (to_json(rows),))
    if difference.deleted:
        connection.execute(_DELETE, (to_json(difference.deleted),))
    if growth := len(difference.new) - len(difference.deleted):
        connection.execute(_COUNT, (growth,))
    record(connection, difference.made)
    return outcomes
