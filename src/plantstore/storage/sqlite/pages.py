"""Reads pages of plants.

A page of all plants is one statement, unless it may have many plants. A page of a tag or of a
search takes more (`search`). If a page takes several statements, they read one snapshot.
"""

import contextlib
from collections.abc import Iterator

import apsw

from plantstore.listings import PAGE_BYTES_MAX, Listing, Page
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from plantstore.storage.sqlite.rows import PLANTS, READ_AT_ONCE, fitting, plants_from_json
from plantstore.storage.sqlite.search import select_found


def select_page(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants, as `PlantStore.list_plants` does."""
    if listing.is_everything and listing.limit < READ_AT_ONCE:
        return _select_any(connection, listing)
    with _snapshot(connection):
        if listing.is_everything:
            return _select_any(connection, listing)
        return select_found(connection, listing)


def _select_any(connection: apsw.Connection, listing: Listing) -> Page:
    """Return the next plants, with any tags and names."""
    found, total = _next(connection, listing)
    is_end = len(found) < min(listing.limit + 1, READ_AT_ONCE)
    while not is_end and len(found) <= listing.limit and _bytes_min(found) <= PAGE_BYTES_MAX:
        left = listing.limit - len(found)
        more, _ = _next(connection, listing._replace(after=found[-1].id, limit=left))
        found += more
        is_end = len(more) < min(left + 1, READ_AT_ONCE)
    on_page = fitting(found[: listing.limit])
    count = None if total is None else listing.total_of(total)
    return Page(on_page, is_last=is_end and len(on_page) == len(found), total=count)


def _next(connection: apsw.Connection, listing: Listing) -> tuple[list[NewPlant], int | None]:
    """Return the next plants, one more than the page may have, and the total if requested."""
    first = ID_MAX if listing.is_descending else ID_MIN
    bindings = {
        "after": first if listing.after is None else listing.after,
        "limit": min(listing.limit + 1, READ_AT_ONCE),
    }
    [(text, total)] = connection.execute(page_query(listing), bindings)
    return plants_from_json(text), total


def _bytes_min(plants: list[NewPlant]) -> int:
    return sum(len(plant.name) for plant in plants)


def page_query(listing: Listing) -> str:
    """Return the SQL for a page of all plants, and for the total. An index finds the plants."""
    comparison = "<" if listing.is_descending else ">"
    equal = "=" if listing.after is None else ""
    where = f"id {comparison}{equal} :after"
    total = "SELECT plants FROM totals" if listing.has_total else "NULL"
    order = "id DESC" if listing.is_descending else "id"
    return f"""
SELECT {PLANTS}, ({total})
FROM (SELECT id, name, tag FROM plants WHERE {where} ORDER BY {order} LIMIT :limit)
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
