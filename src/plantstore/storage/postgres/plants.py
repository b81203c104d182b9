"""Applies changes of plants.

A batch of creates is one statement, and so one round trip and one commit. It stores nothing if the
schema has another version. If ids are taken, the stored plants are read after it. Other changes are
decided while the rows are locked, in a transaction of several statements.

Statements lock rows and keys in order of id, and rows before keys. Writes that need no further
lock come last. So two transactions never wait for each other in a circle.

The number of plants is the sum of many rows. Each store adds to one of them, so that stores
hardly ever wait for each other to count. The row is locked after all keys, and whoever has locked
it waits for nobody.
"""

import contextlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Final

from plantstore.changes import Change, Result
from plantstore.decision import decide, load_stored
from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.migrate import newest_version
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.faults import after_a_commit, retried
from plantstore.storage.postgres.features import LOCK, SELECT_SIZES, Features, marker
from plantstore.storage.postgres.fence import ENGINE, WITH_VERSION, fenced, require_version
from plantstore.storage.postgres.pages import WORDS, documents, select_by_id

_GIVEN: Final = """
unnest(%b::bigint[], %b::text[], %b::text[], %b::text[]) AS given (id, name, tag, words)
"""
_ADD_TO_TOTAL: Final = """
ON CONFLICT (slot) DO UPDATE SET plants = totals.plants + excluded.plants
"""
_CREATE: Final = f"""
{WITH_VERSION}, created AS (
    INSERT INTO plants (id, name, tag, words) SELECT id, name, tag, {WORDS} FROM {_GIVEN}
    WHERE (SELECT version FROM known) = %b::bigint
    ORDER BY id ON CONFLICT (id) DO NOTHING RETURNING id
), counted AS (
    INSERT INTO totals (slot, plants) SELECT %b::bigint, count(*) FROM created
    HAVING count(*) > 0 {_ADD_TO_TOTAL}
)
SELECT id FROM created
"""
_UPDATE: Final = f"""
UPDATE plants SET name = given.name, tag = given.tag, words = {WORDS}
FROM {_GIVEN} WHERE plants.id = given.id
"""
_DELETE: Final = "DELETE FROM plants WHERE id = ANY(%b::bigint[])"
COUNT: Final = f"INSERT INTO totals (slot, plants) VALUES (%b, %b) {_ADD_TO_TOTAL}"
_LOCK_ONE: Final = f"{SELECT_SIZES.replace('= ANY(%b::bigint[])', '= %b')} FOR UPDATE"

_TOO_MANY_OTHERS: Final = "Too many others change the same plants"

# How often a batch is decided again because other transactions took one of its ids first. Each
# time, at least one of the others has committed.
DECISIONS_MAX: Final = 100


def apply_changes(
    connection: Connection, changes: Sequence[Change], features: Features
) -> list[Result]:
    """Apply a batch of changes, as `PlantStore.apply_changes` does."""
    creates = [change for change in changes if isinstance(change, NewPlant)]
    if len(creates) == len(changes):
        return _create(connection, creates, features)
    return _apply_under_locks(connection, changes, features)


def _create(
    connection: Connection, creates: Sequence[NewPlant], features: Features
) -> list[Result]:
    """Store plants under free ids, and compare the others with the stored plants.

    Each round inserts the plants whose ids seem to be free, and reads what is stored under the ids
    of the others. If another transaction has deleted such a plant in between, the next round
    inserts ours.
    """
    first_by_id = {plant.id: plant for plant in reversed(creates)}
    free = sorted(first_by_id)
    stored: dict[int, NewPlant] = {}
    for number in range(DECISIONS_MAX):
        plants = [first_by_id[id_] for id_ in free]
        statement = partial(connection.execute_durably, _CREATE, _to_create(plants, features))
        with after_a_commit() if number else contextlib.nullcontext():
            created = {id_ for (id_,) in retried(statement)}
            if not created:  # the ids are taken, or the schema has another version
                require_version(connection)
        taken = [id_ for id_ in free if id_ not in created]
        stored |= retried(partial(_compared, connection, creates, taken))
        free = [id_ for id_ in taken if id_ not in stored]  # deleted in the meantime
        if not free:
            break
    else:
        raise StoreUnavailableError(_TOO_MANY_OTHERS)
    if stored:
        # "Already stored" must be as durable as "stored". The commit of a marker waits for the
        # standbys.
        with after_a_commit():
            retried(partial(connection.execute_durably, *marker(features)))
    outcomes, _ = decide(creates, stored)
    return outcomes


def _compared(
    connection: Connection, creates: Sequence[NewPlant], ids: list[int]
) -> dict[int, NewPlant]:
    """Return the plants stored under these ids, as `load_stored` does."""
    if not ids:
        return {}
    gone: set[int] = set()

    def load(ids: list[int]) -> dict[int, NewPlant]:
        found = select_by_id(connection, ids)
        gone.update(id_ for id_ in ids if id_ not in found)
        return found

    rows = connection.execute(SELECT_SIZES.encode(), (ids,), binary=True)
    stored = load_stored(creates, {id_: (name, tag) for id_, name, tag in rows}, load)
    return {id_: plant for id_, plant in stored.items() if id_ not in gone}


class _TakenMeanwhileError(Exception):
    """Another transaction took an id, so the batch must be decided again."""


def _apply_under_locks(
    connection: Connection, changes: Sequence[Change], features: Features
) -> list[Result]:
    for _ in range(DECISIONS_MAX):
        try:
            outcomes = retried(partial(_decide_under_locks, connection, changes, features))
        except _TakenMeanwhileError:
            continue
        connection.require_standbys()
        return outcomes
    raise StoreUnavailableError(_TOO_MANY_OTHERS)


def _decide_under_locks(
    connection: Connection, changes: Sequence[Change], features: Features
) -> list[Result]:
    """Apply changes in one transaction that locks the stored plants.

    Raises:
        _TakenMeanwhileError: another transaction took an id that was free. A free id cannot
            be locked. Nothing was changed.

    """
    with fenced(connection):
        sizes = _lock(connection, sorted({change.id for change in changes}), features)
        stored = load_stored(changes, sizes, lambda ids: select_by_id(connection, ids))
        outcomes, (new, changed, gone) = decide(changes, stored)
        if new:
            created = connection.execute(_CREATE, _to_create(new, features))
            if created.rowcount < len(new):
                raise _TakenMeanwhileError
        if changed:
            connection.execute(_UPDATE, _arrays(changed))
        if gone:
            connection.execute(_DELETE, (gone,))
            connection.execute(COUNT, (features.slot, -len(gone)))
        if not sizes and not new:
            statement, values = marker(features)
            connection.execute(statement.encode(), values)
    return outcomes


def _lock(connection: Connection, ids: list[int], features: Features) -> dict[int, Any]:
    """Lock the stored plants among these ids, in order; return their sizes by id."""
    if features.locks_many:
        rows = connection.execute(LOCK, (ids,), binary=True).fetchall()
    else:
        with connection.pipeline():
            cursors = [connection.execute(_LOCK_ONE.encode(), (id_,), binary=True) for id_ in ids]
        rows = [row for cursor in cursors for row in cursor]
    return {id_: (name, tag) for id_, name, tag in rows}


def _to_create(plants: Sequence[NewPlant], features: Features) -> tuple[object, ...]:
    """Return the values for _CREATE."""
    return (*_arrays(plants), newest_version(ENGINE), features.slot)


def _arrays(
    plants: Sequence[NewPlant],
) -> tuple[list[int], list[str], list[str | None], list[str]]:
    return (
        [plant.id for plant in plants],
        [plant.name for plant in plants],
        [plant.tag for plant in plants],
        documents(plant.name for plant in plants),
    )
