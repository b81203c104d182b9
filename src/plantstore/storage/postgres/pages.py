"""Reads plants: by id, and in pages."""

from collections.abc import Sequence
from typing import Final

from plantstore.plants import ID_MIN, NewPlant
from plantstore.storage.paging import page_plants_max
from plantstore.storage.postgres.connection import Connection
from plantstore.store import PAGE_BYTES_MAX, Page

_BYTES: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"
_SELECT: Final = "SELECT id, name, tag FROM plants WHERE id = ANY(%b::bigint[])"


def select_by_id(connection: Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    rows = connection.execute(_SELECT, (list(ids),), binary=True)
    return {row[0]: NewPlant(*row) for row in rows}


def select_page(connection: Connection, after: int | None, limit: int, tag: str | None) -> Page:
    """Return the next plants in order of id, as `PlantStore.list_plants` does."""
    if tag is not None and "\0" in tag:  # PostgreSQL refuses U+0000 in a text
        return Page([], is_last=True)
    limit = page_plants_max(limit, tag)
    values = {
        "after": ID_MIN if after is None else after,
        "tag": tag,
        "limit": limit + 1,  # one more than asked for, to learn whether this is the last page
        "bytes_max": PAGE_BYTES_MAX,
    }
    rows = connection.execute(page_query(after, tag), values, binary=True).fetchall()
    found = rows[0][-1] if rows else 0
    plants = [NewPlant(id_, name, tag) for id_, name, tag, _ in rows[:limit]]
    return Page(plants, is_last=len(plants) == found)


def page_query(after: int | None, tag: str | None) -> str:
    """Return the SQL of a page. The key or the index of tags finds the rows.

    Each row is a plant and the number of plants found. Plants that would make the page too
    large are left out, but never the first one.
    """
    where = "id >= %(after)b" if after is None else "id > %(after)b"
    if tag is not None:
        where = f"md5(tag)::uuid = md5(%(tag)b)::uuid AND tag = %(tag)b AND {where}"
    return f"""
SELECT id, name, tag, found FROM (
    SELECT id, name, tag, count(*) OVER () AS found, row_number() OVER (ORDER BY id) AS number,
        sum({_BYTES}) OVER (ORDER BY id) AS bytes
    FROM (SELECT id, name, tag FROM plants WHERE {where} ORDER BY id LIMIT %(limit)b) AS next
) AS page WHERE number = 1 OR bytes <= %(bytes_max)b ORDER BY id
"""
