"""Reads pages of plants.

A page of all plants is one statement, unless some of them are large. A page of a tag or of a search
takes more (`search`). If a page takes several statements, they read one snapshot.
"""

import contextlib
from collections.abc import Iterator, Sequence

import apsw

from plantstore.listings import Listing, Page
from plantstore.plants import ID_MAX, ID_MIN
from plantstore.storage.sqlite.rows import (
    LISTED,
    LISTED_BYTES_MAX,
    Listed,
    fitting,
    listed_columns,
    select_listed,
)
from plantstore.storage.sqlite.search import select_found


def select_page(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants, as `PlantStore.list_plants` does."""
    if listing.is_everything:
        rows, total = _next(connection, listing)
        if all(row.size <= LISTED_BYTES_MAX for row in rows):
            return _page(connection, listing, rows, total)
    with _snapshot(connection):
        if listing.is_everything:
            return _page(connection, listing, *_next(connection, listing))
        return select_found(connection, listing)


def _next(connection: apsw.Connection, listing: Listing) -> tuple[list[Listed], int | None]:
    """Return the next plants, one more than the page may have, and the total if requested."""
    first = ID_MAX if listing.is_descending else ID_MIN
    bindings = {
        "after": first if listing.after is None else listing.after,
        "limit": listing.limit + 1,
    }
    [(text, total)] = connection.execute(page_query(listing), bindings)
    return Listed.all_from(text), total


def _page(
    connection: apsw.Connection, listing: Listing, rows: Sequence[Listed], total: int | None
) -> Page:
    on_page = fitting(rows[: listing.limit])
    plants = select_listed(connection, on_page)
    count = None if total is None else listing.total_of(total)
    return Page(plants, is_last=len(on_page) == len(rows), total=count)


def page_query(listing: Listing) -> str:
    """Return the SQL for a page of all plants, and for the total. An index finds the plants."""
    comparison = "<" if listing.is_descending else ">"
    equal = "=" if listing.after is None else ""
    where = f"id {comparison}{equal} :after"
    total = "SELECT plants FROM totals" if listing.has_total else "NULL"
    order = "id DESC" if listing.is_descending else "id"
    return f"""
SELECT CAST({LISTED} AS BLOB), ({total})
FROM (SELECT {listed_columns()} FROM plants WHERE {where} ORDER BY {order} LIMIT :limit)
"""


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
