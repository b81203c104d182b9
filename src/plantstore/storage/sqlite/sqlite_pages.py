"""Reads pages of plants.

A page of all plants is one statement. If its plants are too large for a page, the statement returns
how many fit, and is run again for these.

Many plants are passed as one JSON text in one row. For each row, apsw releases the interpreter
lock and has to wait to get it back. So a batch of changes or a page takes a few statements,
whatever its size.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any, Final, TypeVar

import apsw
import msgspec

from plantstore.listings import (
    PAGE_BYTES_MAX,
    Count,
    Listing,
    Page,
    PlantsPage,
)
from plantstore.plants import ID_MAX, ID_MIN, NewPlant

# JSON arrays take half as long as objects, for SQLite and for the decoder. All texts are read
# as bytes, because another program may have stored invalid UTF-8.
ARRAY: Final = "json_group_array(json_array(id, name, tag))"
PLANTS: Final = f"CAST({ARRAY} AS BLOB)"
WITH_IDS: Final = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"

# SQLite knows the size of a text without reading it. A plant that does not exist has none.
BYTES: Final = "coalesce(octet_length(name), 0) + coalesce(octet_length(tag), 0)"

# Whether the plants fit on a page, and how many of them do; at least one.
FITS: Final = ":limit = 1 OR coalesce(bytes, 0) <= :bytes_max"
NUMBER_THAT_FITS: Final = """
SELECT max(count(*), 1) FROM (
    SELECT sum(bytes) OVER (ROWS UNBOUNDED PRECEDING) AS bytes FROM {}
) WHERE bytes <= :bytes_max
"""

_encode = msgspec.json.Encoder().encode
_PLANTS: Final = msgspec.json.Decoder(list[tuple[int, str, str | None]])

ValueT = TypeVar("ValueT")


def to_json(values: Sequence[Any]) -> str:
    """Return plants, integers or rows as a JSON text."""
    return _encode(values).decode()


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    text = connection.execute(f"SELECT {PLANTS} {WITH_IDS}", (to_json(ids),)).get
    return {plant.id: plant for plant in plants_from_json(text)}


def plants_from_json(text: bytes) -> list[NewPlant]:
    """Parse the value of PLANTS, or of ARRAY as bytes."""
    return [NewPlant(*row) for row in from_json(_PLANTS, text)]


def from_json(decoder: msgspec.json.Decoder[ValueT], text: bytes) -> ValueT:
    """Parse JSON with texts of plants. An invalid byte becomes U+FFFD; a check finds it."""
    try:
        return decoder.decode(text)
    except UnicodeDecodeError:  # stored by another program
        return decoder.decode(text.decode(errors="replace"))


def select_page_of_all(connection: apsw.Connection, listing: Listing) -> PlantsPage:
    """Return the next of all plants."""
    bindings = {"after": first_id(listing), "limit": listing.limit + 1}
    text, total = read_fitting(connection, page_query(listing), bindings)
    plants = plants_from_json(text)
    is_last = len(plants) < bindings["limit"]
    plants = plants[: listing.limit]
    count = Count(total) if listing.has_total else None
    return Page(plants, None if is_last else plants[-1].id, is_last, count)


def read_fitting(
    connection: apsw.Connection,
    query: str,
    bindings: dict[str, Any],
    bytes_max: int = PAGE_BYTES_MAX,
) -> tuple[Any, ...]:
    """Return the row of a query, whose limit is lowered until the plants fit on a page."""
    bindings["bytes_max"] = bytes_max
    while True:
        row: tuple[Any, ...]
        [row] = connection.execute(query, bindings)
        if not isinstance(row[0], int):
            return row
        bindings["limit"] = row[0]


def count_plants(connection: apsw.Connection) -> int:
    """Return the recorded number of plants."""
    plants: int = connection.execute("SELECT plants FROM totals").get
    return plants


def first_id(listing: Listing) -> int:
    """Return the id with which, or after which, the page begins."""
    first = ID_MAX if listing.is_descending else ID_MIN
    return first if listing.after is None else listing.after


def after_or_from(listing: Listing) -> str:
    """Return how the ids of a page compare with `first_id`."""
    comparison = "<" if listing.is_descending else ">"
    return f"{comparison}=" if listing.after is None else comparison


def page_query(listing: Listing) -> str:
    """Return the SQL for a page of all plants. An index finds the plants.

    Its row has the next plants, or how many fit on a page if not all do, and the total if the
    listing asks for it.
    """
    total = "SELECT plants FROM totals" if listing.has_total else "NULL"
    order = "id DESC" if listing.is_descending else "id"
    following = (
        f"FROM plants WHERE id {after_or_from(listing)} :after ORDER BY {order} LIMIT :limit"
    )
    sizes = f"(SELECT {BYTES} AS bytes {following})"
    return f"""
SELECT CASE WHEN {FITS} THEN (
    SELECT {PLANTS} FROM (SELECT id, name, tag {following})
) ELSE ({NUMBER_THAT_FITS.format(sizes)}) END, ({total})
FROM (SELECT sum(bytes) AS bytes FROM {sizes})
"""


@contextlib.contextmanager
def snapshot(connection: apsw.Connection) -> Iterator[None]:
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
