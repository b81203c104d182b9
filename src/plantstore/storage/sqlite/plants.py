"""The SQL statements about plants, and how plants are passed to SQLite and back.

Many plants are passed as one JSON text in one row. For each row, apsw releases the interpreter
lock and has to wait to get it back. So a batch of changes takes a few statements whatever its
size. A page takes two statements: one reads the sizes of the plants, and one reads as many
plants as fit. SQLite knows the size of a text without reading it.

Large plants are passed in one row each. As JSON, they would be copied several times, which
takes longer than the wait for the lock.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Final

import apsw
import msgspec

from plantstore.changes import Change, Outcome
from plantstore.decision import decide, load_stored
from plantstore.plants import ID_MIN, NewPlant
from plantstore.storage.paging import page_plants_max
from plantstore.store import PAGE_BYTES_MAX, Page

# The size from which a plant counts as large. A page holds at most sixteen of them.
LARGE_BYTES: Final = PAGE_BYTES_MAX // 16

# JSON arrays take half as long as objects, for SQLite and for the decoder. All texts are read
# as bytes, because another program may have stored invalid UTF-8.
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
    """Apply a batch of changes, in a transaction that the caller has begun."""
    ids = _to_json([change.id for change in changes])
    sizes = _decode_sizes(connection.execute(f"SELECT {_SIZES} {_WITH_IDS}", (ids,)).get)
    stored = load_stored(
        changes,
        {id_: (name, tag) for id_, name, tag in sizes},
        lambda ids: select_by_id(connection, ids),
    )
    outcomes, difference = decide(changes, stored)
    if written := difference.new + difference.changed:
        connection.execute(_UPSERT, (_to_json(written),))
    if difference.gone:
        connection.execute(_DELETE, (_to_json(difference.gone),))
    return outcomes


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
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
    count = limit + 1  # one more than asked for, to learn whether this is the last page
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
    # Other processes may have changed the plants after the sizes were read. Even so, the page is
    # the last one if it holds fewer plants than requested.
    return Page(plants[:limit], is_last=len(plants) < count)


def sizes_query(after: int | None, tag: str | None) -> str:
    """Return the SQL for the sizes of the plants of a page. It does not read their texts."""
    sizes = _select(f"{_SIZE} AS size", after, tag)
    return f"SELECT json_group_array(size) FROM ({sizes})"


def page_query(after: int | None, tag: str | None) -> str:
    """Return the SQL for the plants of a page."""
    plants = _select("id, name, tag", after, tag)
    return f"SELECT CAST({_PLANTS} AS BLOB) FROM ({plants})"


def _select(columns: str, after: int | None, tag: str | None) -> str:
    """Return the SQL for some columns of a page. The key or the index of tags finds the rows."""
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
        # An invalid byte becomes U+FFFD, so that the other plants can be read. A check finds it.
        found = _decode_rows(rows.decode(errors="replace"))
    return [NewPlant(*row) for row in found]


def _from_rows(rows: Iterable[tuple[int, bytes, bytes | None]]) -> list[NewPlant]:
    plants = []
    for id_, name, tag in rows:
        text = None if tag is None else tag.decode(errors="replace")
        plants.append(NewPlant(id_, name.decode(errors="replace"), text))
    return plants
