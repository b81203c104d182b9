"""The plants in PostgreSQL: what is asked of it.

A batch of creates is one statement, one round trip, and one commit. What does not fit
into it (other changes, an id that is there already or twice) is decided under locks,
in a transaction of several statements.

Statements lock rows and keys in order of id, rows before keys, and write what takes
no more waiting last. So two of them never wait for each other.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

from plantstore.decision import decide, load_stored
from plantstore.errors import StoreUnavailableError
from plantstore.plants import ID_MIN, NewPlant
from plantstore.storage.postgres_connection import Connection
from plantstore.store import PAGE_BYTES_MAX, Change, Outcome, Page, page_plants_max

BYTES: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"

# What writes nothing waits for no standby, though it may tell of what others wrote: that a plant
# is gone, say. A trace in the log makes its commit wait until they are on the standby too.
LEAVE_A_TRACE: Final = "SELECT pg_logical_emit_message(true, 'plantstore', '')"

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

# How often a batch is decided anew when others were faster, each time, to take an id.
DECISIONS_MAX: Final = 10


def apply_changes(connection: Connection, changes: Sequence[Change]) -> list[Outcome]:
    """Make changes, one after the other, as `Store.apply_changes` does."""
    creates = {change.id: change for change in changes if isinstance(change, NewPlant)}
    if len(creates) < len(changes):
        return _apply_under_locks(connection, changes)
    stored = {id_ for (id_,) in connection.execute(_CREATE, _arrays(changes), binary=True)}
    if len(stored) == len(changes):
        return [Outcome.STORED] * len(changes)
    # Not only to compare: the lock writes to the log, and so its commit waits until the plant
    # that is there is as safe as one that is new.
    others = [change for change in changes if change.id not in stored]
    outcomes = iter(_apply_under_locks(connection, others))
    return [Outcome.STORED if change.id in stored else next(outcomes) for change in changes]


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


def _apply_under_locks(connection: Connection, changes: Sequence[Change]) -> list[Outcome]:
    ids = [change.id for change in changes]
    for _ in range(DECISIONS_MAX):
        try:
            return _decide_under_locks(connection, changes, ids)
        except _TakenMeanwhileError:
            continue
    raise StoreUnavailableError("Too many others change the same plants")


def _decide_under_locks(
    connection: Connection, changes: Sequence[Change], ids: list[int]
) -> list[Outcome]:
    """Make changes in one transaction, in which what is there cannot change meanwhile.

    Raises:
        _TakenMeanwhileError: what is not there cannot be locked, and another took
            an id first that was to be taken; nothing is done.

    """
    with connection.transaction():
        rows = connection.execute(_LOCK, (ids,), binary=True)
        sizes = {id_: (name, tag) for id_, name, tag in rows}
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
            connection.execute(LEAVE_A_TRACE)
    return outcomes


def _arrays(plants: Iterable[Any]) -> tuple[list[int], list[str], list[str | None]]:
    return (
        [plant.id for plant in plants],
        [plant.name for plant in plants],
        [plant.tag for plant in plants],
    )
