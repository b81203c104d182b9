"""Reads pages of plants.

A page takes two statements: one reads the sizes of the plants, and one reads as many plants as
fit. A total or a search takes more, and all of them read one snapshot.
"""

import contextlib
from collections.abc import Iterator
from itertools import accumulate

import apsw

from plantstore.listings import COUNT_MAX, PAGE_BYTES_MAX, Count, Listing, Page
from plantstore.plants import ID_MAX, ID_MIN
from plantstore.storage.paging import page_plants_max
from plantstore.storage.sqlite.rows import (
    LARGE_BYTES,
    PLANTS,
    ROW,
    SIZE,
    decode_integers,
    plants_from_json,
    plants_from_rows,
)
from plantstore.storage.sqlite.search import count_found, select_found


def select_page(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants, as `PlantStore.list_plants` does."""
    if listing.words is None and not listing.has_total:
        return _select_next(connection, listing)
    with _snapshot(connection):
        page = (_select_next if listing.words is None else select_found)(connection, listing)
        return page._replace(total=_count(connection, listing)) if listing.has_total else page


def _select_next(connection: apsw.Connection, listing: Listing) -> Page:
    limit = page_plants_max(listing.limit, listing.tag)
    first = ID_MAX if listing.is_descending else ID_MIN
    count = limit + 1  # one more than asked for, to learn whether this is the last page
    bindings = {
        "after": first if listing.after is None else listing.after,
        "tag": listing.tag,
        "limit": count,
    }
    sizes = decode_integers(connection.execute(sizes_query(listing), bindings).get)
    fitting = sum(total <= PAGE_BYTES_MAX for total in accumulate(sizes))
    if fitting < len(sizes):
        count = max(1, fitting)
        del sizes[count:]
    bindings["limit"] = count
    if sizes and sum(sizes) >= LARGE_BYTES * len(sizes):
        plants = plants_from_rows(connection.execute(_select(ROW, listing), bindings))
    else:
        plants = plants_from_json(connection.execute(page_query(listing), bindings).get)
    # Other processes may have changed the plants after the sizes were read. Even so, the page is
    # the last one if it holds fewer plants than requested.
    return Page(plants[:limit], is_last=len(plants) < count)


def sizes_query(listing: Listing) -> str:
    """Return the SQL for the sizes of the plants of a page. It does not read their texts."""
    return f"SELECT json_group_array(size) FROM ({_select(f'{SIZE} AS size', listing)})"


def page_query(listing: Listing) -> str:
    """Return the SQL for the plants of a page."""
    return f"SELECT CAST({PLANTS} AS BLOB) FROM ({_select('id, name, tag', listing)})"


def _select(columns: str, listing: Listing) -> str:
    """Return the SQL for some columns of a page. The key or the index of tags finds the rows."""
    comparison = "<" if listing.is_descending else ">"
    equal = "=" if listing.after is None else ""
    where = f"id {comparison}{equal} :after"
    if listing.tag is not None:
        where = f"tag = :tag AND {where}"
    order = "id DESC" if listing.is_descending else "id"
    return f"SELECT {columns} FROM plants WHERE {where} ORDER BY {order} LIMIT :limit"


def _count(connection: apsw.Connection, listing: Listing) -> Count:
    if listing.words is not None:
        return count_found(connection, listing)
    if listing.tag is None:
        return Count(connection.execute("SELECT plants FROM totals").get)
    query = "SELECT count(*) FROM (SELECT 1 FROM plants WHERE tag = ? LIMIT ?)"
    plants = connection.execute(query, (listing.tag, COUNT_MAX + 1)).get
    return Count.up_to_max(plants)


@contextlib.contextmanager
def _snapshot(connection: apsw.Connection) -> Iterator[None]:
    """Read one snapshot during the block."""
    if not connection.getautocommit():  # an export has one already
        yield
        return
    connection.execute("BEGIN")
    try:
        yield
    finally:
        if not connection.getautocommit():  # SQLite ends it by itself after some errors
            connection.execute("COMMIT")
