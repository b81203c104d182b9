"""The plants in PostgreSQL: what is asked of it.

A batch of creates is one statement, one round trip, and one commit. An id that is there
already is only read, after that. Other changes are decided under locks, in a transaction of
several statements.

Statements lock rows and keys in order of id, rows before keys, and write what takes
no more waiting last. So two of them never wait for each other.
"""

import contextlib
import random
from collections.abc import Iterable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple

from plantstore.decision import decide, load_stored
from plantstore.errors import StoreUnavailableError
from plantstore.plants import ID_MIN, NewPlant
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.faults import MISSING, after_a_commit, retried
from plantstore.store import PAGE_BYTES_MAX, Change, Outcome, Page, page_plants_max

BYTES: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"

# What writes nothing waits for no standby, though it may tell of what others wrote: that a plant
# is gone, say. A trace in the log makes its commit wait until they are on the standby too.
_LEAVE_A_MESSAGE: Final = "SELECT pg_logical_emit_message(true, 'plantstore', '')"
_LEAVE_A_ROW: Final = """
INSERT INTO plantstore_traces (slot, number) VALUES (%s, 1)
ON CONFLICT (slot) DO UPDATE SET number = plantstore_traces.number + 1
"""

# Rows for traces. Who updates one waits for whoever updates the same.
_TRACES_MAX: Final = 64

_GIVEN: Final = "unnest(%b::bigint[], %b::text[], %b::text[])"
_CREATE: Final = f"""
INSERT INTO plants (id, name, tag) SELECT * FROM {_GIVEN} ORDER BY 1
ON CONFLICT (id) DO NOTHING RETURNING id
"""
_UPDATE: Final = f"""
UPDATE plants SET name = given.name, tag = given.tag
FROM {_GIVEN} AS given (id, name, tag) WHERE plants.id = given.id
"""
_DELETE: Final = "DELETE FROM plants WHERE id = ANY(%b::bigint[])"
_SELECT: Final = "SELECT id, name, tag FROM plants WHERE id = ANY(%b::bigint[])"
# The server knows the size of a text without reading it.
SELECT_SIZES: Final = """
SELECT id, octet_length(name), octet_length(tag) FROM plants WHERE id = ANY(%b::bigint[])
"""
_LOCK: Final = f"{SELECT_SIZES} ORDER BY id FOR UPDATE"
_LOCK_ONE: Final = f"{SELECT_SIZES.replace('= ANY(%b::bigint[])', '= %b')} FOR UPDATE"

_TOO_MANY_OTHERS: Final = "Too many others change the same plants"

# How often a batch is decided anew when others were faster, each time, to take an id.
DECISIONS_MAX: Final = 10


class Features(NamedTuple):
    """What an engine can do, beyond what each must.

    Attributes:
        has_messages: put a message into its log.
        locks_many: lock several rows in one statement.

    """

    has_messages: bool
    locks_many: bool


def find_features(connection: Connection) -> Features:
    """Find out what an engine can do, by trying it. Nothing is changed."""
    return Features(
        has_messages=_works(connection, _LEAVE_A_MESSAGE),
        locks_many=_works(connection, _LOCK, list(range(ID_MIN, ID_MIN + 64))),
    )


def _works(connection: Connection, statement: str, *bindings: object) -> bool:
    try:
        with connection.transaction(force_rollback=True):
            connection.execute(statement.encode(), bindings, binary=True)
    except MISSING:
        return False
    return True


def trace(features: Features) -> tuple[str, tuple[int, ...]]:
    """Return a statement that leaves a trace in the log, and what is bound in it."""
    if features.has_messages:
        return _LEAVE_A_MESSAGE, ()
    return _LEAVE_A_ROW, (random.randrange(_TRACES_MAX),)  # noqa: S311


def apply_changes(
    connection: Connection, changes: Sequence[Change], features: Features
) -> list[Outcome]:
    """Make changes, one after the other, as `Store.apply_changes` does."""
    creates = [change for change in changes if isinstance(change, NewPlant)]
    if len(creates) == len(changes):
        return _create(connection, creates, features)
    return _apply_under_locks(connection, changes, features)


def _create(
    connection: Connection, creates: Sequence[NewPlant], features: Features
) -> list[Outcome]:
    """Store plants under ids that are free, and compare the others with what is there."""
    first_by_id = {plant.id: plant for plant in reversed(creates)}
    free = sorted(first_by_id)
    stored: dict[int, NewPlant] = {}
    for number in range(DECISIONS_MAX):
        plants = [first_by_id[id_] for id_ in free]
        with after_a_commit() if number else contextlib.nullcontext():
            rows = retried(partial(connection.execute_durably, _CREATE, _arrays(plants)))
        created = {id_ for (id_,) in rows}
        taken = [id_ for id_ in free if id_ not in created]
        stored |= retried(partial(_compared, connection, creates, taken))
        free = [id_ for id_ in taken if id_ not in stored]  # It was deleted meanwhile.
        if not free:
            break
    else:
        raise StoreUnavailableError(_TOO_MANY_OTHERS)
    if stored:
        # Its commit waits until the plant that is there is as safe as one that is new.
        with after_a_commit():
            retried(partial(connection.execute_durably, *trace(features)))
    outcomes, _ = decide(creates, stored)
    return outcomes


def _compared(
    connection: Connection, creates: Sequence[NewPlant], ids: list[int]
) -> dict[int, NewPlant]:
    """Return what is stored under ids, as far as creates have to be compared with it."""
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


def select_by_id(connection: Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return those plants, by id, that are there."""
    rows = connection.execute(_SELECT, (list(ids),), binary=True)
    return {row[0]: NewPlant(*row) for row in rows}


def select_page(connection: Connection, after: int | None, limit: int, tag: str | None) -> Page:
    """Return the next plants in order of id, as `Store.list_plants` does."""
    if tag is not None and "\0" in tag:  # PostgreSQL would refuse to look for it
        return Page([], is_last=True)
    limit = page_plants_max(limit, tag)
    bindings = {
        "after": ID_MIN if after is None else after,
        "tag": tag,
        "limit": limit + 1,  # one more than asked for, to know whether there is one
        "bytes_max": PAGE_BYTES_MAX,
    }
    rows = connection.execute(page_query(after, tag), bindings, binary=True).fetchall()
    found = rows[0][-1] if rows else 0
    plants = [NewPlant(id_, name, tag) for id_, name, tag, _ in rows[:limit]]
    return Page(plants, is_last=len(plants) == found)


def page_query(after: int | None, tag: str | None) -> str:
    """Return the SQL of a page, which the key or the index of tags serves.

    A row is a plant, and how many were found, of which those are left out that
    would make the page too large; never the first.
    """
    where = "id >= %(after)b" if after is None else "id > %(after)b"
    if tag is not None:
        where = f"md5(tag)::uuid = md5(%(tag)b)::uuid AND tag = %(tag)b AND {where}"
    return f"""
SELECT id, name, tag, found FROM (
    SELECT id, name, tag, count(*) OVER () AS found, row_number() OVER (ORDER BY id) AS number,
        sum({BYTES}) OVER (ORDER BY id) AS bytes
    FROM (SELECT id, name, tag FROM plants WHERE {where} ORDER BY id LIMIT %(limit)b) AS next
) AS page WHERE number = 1 OR bytes <= %(bytes_max)b ORDER BY id
"""


class _TakenMeanwhileError(Exception):
    """What was decided does not hold any more."""


def _apply_under_locks(
    connection: Connection, changes: Sequence[Change], features: Features
) -> list[Outcome]:
    for _ in range(DECISIONS_MAX):
        try:
            outcomes = retried(partial(_decide_under_locks, connection, changes, features))
        except _TakenMeanwhileError:
            continue
        connection.insist_on_standbys()
        return outcomes
    raise StoreUnavailableError(_TOO_MANY_OTHERS)


def _decide_under_locks(
    connection: Connection, changes: Sequence[Change], features: Features
) -> list[Outcome]:
    """Make changes in one transaction, in which what is there cannot change meanwhile.

    Raises:
        _TakenMeanwhileError: what is not there cannot be locked, and another took
            an id first that was to be taken; nothing is done.

    """
    with connection.transaction():
        sizes = _lock(connection, sorted({change.id for change in changes}), features)
        locked = frozenset(sizes)
        stored = load_stored(changes, sizes, lambda ids: select_by_id(connection, ids))
        outcomes, difference = decide(changes, stored)
        plants = [plant for plant in difference.values() if plant is not None]
        if new := [plant for plant in plants if plant.id not in locked]:
            created = connection.execute(_CREATE, _arrays(new))
            if created.rowcount < len(new):
                raise _TakenMeanwhileError
        if changed := [plant for plant in plants if plant.id in locked]:
            connection.execute(_UPDATE, _arrays(changed))
        if gone := [id_ for id_ in locked if difference.get(id_, ...) is None]:
            connection.execute(_DELETE, (gone,))
        if not locked and not new:
            statement, bindings = trace(features)
            connection.execute(statement.encode(), bindings)
    return outcomes


def _lock(connection: Connection, ids: list[int], features: Features) -> dict[int, Any]:
    """Lock what is there of ids, in their order; return the sizes of name and tag by id."""
    if features.locks_many:
        rows = connection.execute(_LOCK, (ids,), binary=True).fetchall()
    else:
        with connection.pipeline():
            cursors = [connection.execute(_LOCK_ONE.encode(), (id_,), binary=True) for id_ in ids]
        rows = [row for cursor in cursors for row in cursor]
    return {id_: (name, tag) for id_, name, tag in rows}


def _arrays(plants: Iterable[Any]) -> tuple[list[int], list[str], list[str | None]]:
    return (
        [plant.id for plant in plants],
        [plant.name for plant in plants],
        [plant.tag for plant in plants],
    )
