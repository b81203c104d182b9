"""The plants in a file of SQLite: what is asked of it, and how they cross over.

Plants cross over as JSON, in one row, however many they are: each row lets go of the
interpreter lock and has to wait for it again. So a batch of changes is a handful of
statements whatever its size, and a page is one.
"""

from collections.abc import Sequence
from typing import Final

import apsw
import msgspec

from plantstore.plants import ID_MIN, NewPlant
from plantstore.store import PAGE_BYTES_MAX, Change, Outcome, Page, decide

# As bytes: what another program has put in may be no UTF-8.
AS_JSON = """
CAST(json_group_array(json_object('id', id, 'name', name, 'tag', tag) ORDER BY id) AS BLOB)
"""
SUM_BYTES = "sum(octet_length(name) + coalesce(octet_length(tag), 0))"
_WITH_IDS = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"
_UPSERT = """
INSERT INTO plants (id, name, tag)
SELECT value->>'id', value->>'name', value->>'tag' FROM jsonb_each(?) WHERE true
ON CONFLICT (id) DO UPDATE SET name = excluded.name, tag = excluded.tag
"""
_DELETE = "DELETE FROM plants WHERE id IN (SELECT value FROM json_each(?))"

# What the plants hold at most, in bytes of names and tags, that a batch of changes is about.
# A batch that is about more is made in parts: small requests may be about large plants.
BATCH_BYTES_MAX: Final = 16 * 1024 * 1024

_encode = msgspec.json.Encoder().encode
_decode_plants = msgspec.json.Decoder(list[NewPlant]).decode


def apply_changes(connection: apsw.Connection, changes: Sequence[Change]) -> list[Outcome]:
    """Make changes, one after the other, in a transaction that the caller has begun."""
    ids = [change.id for change in changes]
    stored_bytes = connection.execute(f"SELECT {SUM_BYTES} {_WITH_IDS}", (_to_json(ids),)).get
    if len(changes) > 1 and (stored_bytes or 0) > BATCH_BYTES_MAX:
        half = len(changes) // 2
        return apply_changes(connection, changes[:half]) + apply_changes(connection, changes[half:])
    is_new = stored_bytes is None  # all of it, as most creates are
    stored = {} if is_new else select_by_id(connection, ids)
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
    query = f"SELECT {AS_JSON} {_WITH_IDS}"
    plants = _from_json(connection.execute(query, (_to_json(ids),)).get)
    return {plant.id: plant for plant in plants}


def select_page(
    connection: apsw.Connection, after: int | None, limit: int, tag: str | None
) -> Page:
    """Return the next plants in order of id, as `Store.list_plants` does."""
    bindings = {"after": ID_MIN if after is None else after, "tag": tag}
    sum_bytes = page_query(SUM_BYTES, after, tag)
    while limit > 1 and (
        (connection.execute(sum_bytes, bindings | {"limit": limit}).get or 0) > PAGE_BYTES_MAX
    ):
        limit //= 2
    # One more than asked for, to know whether there is one.
    query = page_query(AS_JSON, after, tag)
    plants = _from_json(connection.execute(query, bindings | {"limit": limit + 1}).get)
    return Page(plants[:limit], is_last=len(plants) <= limit)


def page_query(result: str, after: int | None, tag: str | None) -> str:
    """Return the SQL of a result over a page, which the key or the index of tags serves."""
    where = "id >= :after" if after is None else "id > :after"
    if tag is not None:
        where = f"tag = :tag AND {where}"
    return (
        f"SELECT {result} FROM"
        f" (SELECT id, name, tag FROM plants WHERE {where} ORDER BY id LIMIT :limit)"
    )


def _to_json(values: Sequence[NewPlant] | Sequence[int]) -> str:
    return _encode(values).decode()


def _from_json(rows: bytes) -> list[NewPlant]:
    # A bad byte shows as U+FFFD; a check finds it. It must not hide its neighbours.
    return _decode_plants(rows.decode(errors="replace"))
