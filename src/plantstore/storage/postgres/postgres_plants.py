"""Applies changes of plants.

A batch of creates is one statement, and so one round trip and one commit. It stores nothing if the
schema has another version. Creates whose ids are taken, and batches with other changes, are decided
while the rows are locked, in a transaction of several statements.

Statements lock rows and keys in order of id, and rows before keys. Writes that need no further
lock come last. So there are no deadlocks.

The number of plants is the sum of many rows. Each store adds to one of them, so that stores
hardly ever wait for each other to count. The row is locked after all keys, and the row of the feed
after it.
"""

import contextlib
from collections.abc import Sequence
from typing import Final

from plantstore.changes import AllInSet, Change, Result
from plantstore.decision import decide
from plantstore.errors import NothingDoneError
from plantstore.plants import NewPlant
from plantstore.storage.migrate import newest_version
from plantstore.storage.postgres.postgres_feed import (
    APPEND,
    APPEND_IN_SETS,
    FEED,
    ChangedMeanwhileError,
    closed_meanwhile,
    record,
)
from plantstore.storage.postgres.postgres_pages import WORDS, documents
from plantstore.storage.postgres.session import (
    ENGINE,
    WITH_VERSION,
    Connection,
    after_a_commit,
    fenced,
)
from plantstore.words import order_key

_GIVEN: Final = """
unnest(%b::bigint[], %b::text[], %b::text[], %b::text[], %b::text[])
AS given (id, name, tag, words, name_key)
"""
_ADD_TO_TOTAL: Final = """
ON CONFLICT (slot) DO UPDATE SET plants = totals.plants + excluded.plants
"""
_CREATE_PARTS: Final = f"""
{WITH_VERSION}, created AS (
    INSERT INTO plants (id, name, tag, words, name_key)
    SELECT id, name, tag, {WORDS}, name_key FROM {_GIVEN}
    WHERE (SELECT version FROM known) = %b::bigint
    ORDER BY id ON CONFLICT (id) DO NOTHING RETURNING id, name, tag
), counted AS (
    INSERT INTO totals (slot, plants) SELECT %b::bigint, count(*) FROM created
    HAVING count(*) > 0 {_ADD_TO_TOTAL} RETURNING slot
)
"""
_CREATE: Final = f"{_CREATE_PARTS} SELECT id FROM created"
# `made` waits for `counted`: the row of the feed is locked after that of `totals`.
_CREATE_AND_RECORD: Final = f"""
{_CREATE_PARTS}, made AS (
    SELECT row_number() OVER (ORDER BY id) AS place, 1 AS change, id, name, tag
    FROM created, counted
), {APPEND}
SELECT id FROM created
"""
# The same for plants that are all in one set.
_CREATE_IN_SET: Final = f"""
{_CREATE_PARTS}, made AS (
    SELECT row_number() OVER (ORDER BY id) AS place, 1 AS change, id, name, tag,
        %b::text AS set_name, NULL AS name_before, NULL AS tag_before
    FROM created, counted
), {APPEND_IN_SETS}
SELECT id FROM created
"""
_UPDATE: Final = f"""
UPDATE plants SET name = given.name, tag = given.tag, words = {WORDS}, name_key = given.name_key
FROM {_GIVEN} WHERE plants.id = given.id
"""
_DELETE: Final = "DELETE FROM plants WHERE id = ANY(%b::bigint[])"
COUNT: Final = f"INSERT INTO totals (slot, plants) VALUES (%b, %b) {_ADD_TO_TOTAL}"
_LOCK: Final = """
SELECT id, name, tag FROM plants WHERE id = ANY(%b::bigint[]) ORDER BY id FOR UPDATE
"""
# A transaction that writes nothing does not wait for a standby. But its result may depend on the
# writes of other transactions: on the deletion of a plant, for example. So it writes a marker. Its
# commit then waits until everything before the marker is on the standby, too.
MARK: Final = """
INSERT INTO plantstore_markers (slot, number) VALUES (%b, 1)
ON CONFLICT (slot) DO UPDATE SET number = plantstore_markers.number + 1 RETURNING slot
"""

# The number of rows that count plants, and of markers. Transactions that update the same row wait
# for each other.
SLOTS: Final = 64

# How often a batch is decided again because other transactions took one of its ids first. Each
# time, at least one of the others has committed.
DECISIONS_MAX: Final = 100


def mark(connection: Connection, slot: int) -> None:
    """Write a marker, also to a database that is read-only by default."""
    if connection.takes_writes:
        connection.execute(MARK, (slot,))
        return
    with connection.transaction():
        connection.execute("SET TRANSACTION READ WRITE")
        connection.execute(MARK, (slot,))


def write_changes(connection: Connection, changes: Sequence[Change], slot: int) -> list[Result]:
    """Apply a batch of changes, as `PlantStore.apply_changes` does.

    Args:
        connection: to the database, outside of a transaction.
        changes: the batch.
        slot: of the row of each table of slots that this store writes, less than SLOTS.

    """
    set_name, plants = None, changes
    if isinstance(changes, AllInSet):
        set_name, plants = changes.set, changes.changes
    creates = [plant for plant in plants if isinstance(plant, NewPlant)]
    if len(creates) < len(changes):
        return _apply_under_locks(connection, changes, slot)
    first_by_id = {plant.id: plant for plant in reversed(creates)}
    values = _to_create(list(first_by_id.values()), slot)
    statement = _CREATE_AND_RECORD
    if set_name is not None:
        statement, values = _CREATE_IN_SET, (*values, set_name)
    try:
        with closed_meanwhile():
            created = {id_ for (id_,) in connection.fetch(statement, values)}
    except ChangedMeanwhileError:
        return _apply_under_locks(connection, changes, slot)
    connection.require_standbys()
    outcomes, _ = decide([plant for plant in creates if plant.id in created], {})
    # Their ids are taken, or the schema has another version.
    others = [plant for plant in creates if plant.id not in created]
    if not others:
        return outcomes
    left = others if set_name is None else AllInSet(others, set_name)
    with after_a_commit() if created else contextlib.nullcontext():
        others_outcomes = _apply_under_locks(connection, left, slot)
    following = {True: iter(outcomes), False: iter(others_outcomes)}
    return [next(following[plant.id in created]) for plant in creates]


def _apply_under_locks(
    connection: Connection, changes: Sequence[Change], slot: int
) -> list[Result]:
    changes = [*changes]
    for _ in range(DECISIONS_MAX):
        try:
            outcomes = _decide_under_locks(connection, changes, slot)
        except ChangedMeanwhileError:
            continue
        connection.require_standbys()
        return outcomes
    raise NothingDoneError("Other clients changed the same plants each time")


def _decide_under_locks(
    connection: Connection, changes: Sequence[Change], slot: int
) -> list[Result]:
    """Apply changes in one transaction that locks the stored plants.

    Raises:
        ChangedMeanwhileError: another transaction closed a set, or took an id that was free. A free
            id cannot be locked.

    """
    with fenced(connection):
        rows = connection.fetch(_LOCK, ([change.id for change in changes],))
        outcomes, (new, changed, deleted, made) = decide(
            changes,
            {row[0]: NewPlant(*row) for row in rows},
            FEED.closed_of(connection.fetch, changes),
        )
        if new:
            created = connection.fetch(_CREATE, _to_create(new, slot))
            if len(created) < len(new):
                raise ChangedMeanwhileError
        if changed:
            connection.execute(_UPDATE, _arrays(changed))
        if deleted:
            connection.execute(_DELETE, (deleted,))
            connection.execute(COUNT, (slot, -len(deleted)))
        record(connection, made)
        if not rows and not new:
            connection.execute(MARK, (slot,))
    return outcomes


def _to_create(plants: Sequence[NewPlant], slot: int) -> tuple[object, ...]:
    """Return the values for _CREATE."""
    return (*_arrays(plants), newest_version(ENGINE), slot)


def _arrays(
    plants: Sequence[NewPlant],
) -> tuple[list[int], list[str], list[str | None], list[str], list[str]]:
    return (
        [plant.id for plant in plants],
        [plant.name for plant in plants],
        [plant.tag for plant in plants],
        documents(plant.name for plant in plants),
        [order_key(plant.name) for plant in plants],
    )
