"""The plants in a file of SQLite: what is asked of it, and how they cross over.

Plants cross over as JSON, in one row, however many they are: each row lets go of the
interpreter lock and has to wait for it again. So a batch of changes is a handful of
statements whatever its size, and a page is two: one asks for the sizes, one reads as
many plants as fit. SQLite knows the size of a text without reading it.

Large plants cross over in a row each. As JSON they would be copied half a dozen times,
which takes longer than to wait for the lock.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import apsw
import msgspec

from plantstore.decision import decide, load_stored
from plantstore.plants import ID_MIN, NewPlant
from plantstore.store import PAGE_BYTES_MAX, Change, Outcome, Page, page_plants_max

# From this size on a plant is large. A page holds sixteen of them at most.
LARGE_BYTES: Final = PAGE_BYTES_MAX // 16

# Arrays, since SQLite makes them, and we read them, at half the cost of objects. As bytes, here
# and in rows: what another program has put in may be no UTF-8.
_SIZE: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"
_PLANTS: Final = "json_group_array(json_array(id, name, tag))"
_SMALL_AND_LARGE: Final = f"""
CAST({_PLANTS} FILTER (WHERE {_SIZE} < {LARGE_BYTES}) AS BLOB),
json_group_array(id) FILTER (WHERE {_SIZE} >= {LARGE_BYTES})
"""
_ROW: Final = "id, CAST(name AS BLOB), CAST(tag AS BLOB)"
_SIZES: Final = "json_group_array(json_array(id, octet_length(name), octet_length(tag)))"
_WITH_IDS: Final = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"
_UPSERT: Final = """
INSERT INTO plants (id, name, tag)
SELECT value->>'id', value->>'name', value->>'tag' FROM jsonb_each(?) WHERE true
ON CONFLICT (id) DO UPDATE SET name = excluded.name, tag = excluded.tag
"""
_DELETE: Final = "DELETE FROM plants WHERE id IN (SELECT value FROM json_each(?))"

_encode = msgspec.json.Encoder().encode
_decode_rows = msgspec.json.Decoder(list[tuple[int, str, str | None]]).decode
_decode_sizes = msgspec.json.Decoder(list[tuple[int, int, int | None]]).decode
_decode_integers = msgspec.json.Decoder(list[int]).decode


def apply_changes(connection: apsw.Connection, changes: Sequence[Change]) -> list[Outcome]:
    """Make changes, one after the other, in a transaction that the caller has begun."""
    ids = _to_json([change.id for change in changes])
    sizes = _decode_sizes(connection.execute(f"SELECT {_SIZES} {_WITH_IDS}", (ids,)).get)
    stored = load_stored(
        changes,
        {id_: (name, tag) for id_, name, tag in sizes},
        lambda ids: select_by_id(connection, ids),
    )
    outcomes, difference = decide(changes, stored)
    there = [plant for plant in difference.values() if plant is not None]
    if there:
        connection.execute(_UPSERT, (_to_json(there),))
    if len(there) < len(difference):
        gone = [id_ for id_, plant in difference.items() if plant is None]
        connection.execute(_DELETE, (_to_json(gone),))
    return outcomes


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return those plants, by id, that are there."""
    query = f"SELECT {_SMALL_AND_LARGE} {_WITH_IDS}"
    [(small, large)] = connection.execute(query, (_to_json(ids),))
    plants = _from_json(small)
    if large != "[]":
        plants += _from_rows(connection.execute(f"SELECT {_ROW} {_WITH_IDS}", (large,)))
    return {plant.id: plant for plant in plants}


def select_page(
    connection: apsw.Connection, after: int | None, limit: int, tag: str | None
) -> Page:
    """Return the next plants in order of id, as `Store.list_plants` does."""
    limit = page_plants_max(limit, tag)
    count = limit + 1  # one more than asked for, to know whether there is one
    bindings = {"after": ID_MIN if after is None else after, "tag": tag, "limit": count}
    sizes = _decode_integers(connection.execute(sizes_query(after, tag), bindings).get)
    fitting = sum(total <= PAGE_BYTES_MAX for total in accumulate(sizes))
    if fitting < len(sizes):
        count = max(1, fitting)
        del sizes[count:]
    bindings["limit"] = count
    if sizes and sum(sizes) >= LARGE_BYTES * len(sizes):
        plants = _from_rows(connection.execute(_select(_ROW, after, tag), bindings))
    else:
        plants = _from_json(connection.execute(page_query(after, tag), bindings).get)
    # Others may have changed the plants since they were measured. Fewer than were asked for
    # are the last ones all the same.
    return Page(plants[:limit], is_last=len(plants) < count)


def sizes_query(after: int | None, tag: str | None) -> str:
    """Return the SQL for the size of each plant of a page, which reads none of their texts."""
    sizes = _select(f"{_SIZE} AS size", after, tag)
    return f"SELECT json_group_array(size) FROM ({sizes})"


def page_query(after: int | None, tag: str | None) -> str:
    """Return the SQL of a page."""
    plants = _select("id, name, tag", after, tag)
    return f"SELECT CAST({_PLANTS} AS BLOB) FROM ({plants})"


def _select(columns: str, after: int | None, tag: str | None) -> str:
    """Return the SQL of columns of a page, which the key or the index of tags serves."""
    where = "id >= :after" if after is None else "id > :after"
    if tag is not None:
        where = f"tag = :tag AND {where}"
    return f"SELECT {columns} FROM plants WHERE {where} ORDER BY id LIMIT :limit"


def _to_json(values: Sequence[NewPlant] | Sequence[int]) -> str:
    return _encode(values).decode()


def _from_json(rows: bytes) -> list[NewPlant]:
    try:
        found = _decode_rows(rows)
    except UnicodeDecodeError:
        # A bad byte shows as U+FFFD; a check finds it. It must not hide its neighbours.
        found = _decode_rows(rows.decode(errors="replace"))
    return [NewPlant(*row) for row in found]


def _from_rows(rows: Iterable[tuple[int, bytes, bytes | None]]) -> list[NewPlant]:
    plants = []
    for id_, name, tag in rows:
        text = None if tag is None else tag.decode(errors="replace")
        plants.append(NewPlant(id_, name.decode(errors="replace"), text))
    return plants
