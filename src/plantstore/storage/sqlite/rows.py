"""How plants are passed to SQLite and back.

Many plants are passed as one JSON text in one row. For each row, apsw releases the interpreter
lock and has to wait to get it back. So a batch of changes or a page takes a few statements,
whatever its size.

Large plants are passed in one row each. As JSON, they would be copied several times, which
takes longer than the wait for the lock.
"""

from collections.abc import Iterable, Sequence
from itertools import accumulate
from typing import Any, Final, NamedTuple, Self

import apsw
import msgspec

from plantstore.listings import PAGE_BYTES_MAX
from plantstore.plants import NewPlant

# The size from which a plant counts as large. A page holds at most sixteen of them.
LARGE_BYTES: Final = PAGE_BYTES_MAX // 16

# The size up to which a listed plant is read together with its size. It limits the memory for
# plants that do not fit on the page.
LISTED_BYTES_MAX: Final = 1024

# SQLite knows the size of a text without reading it.
SIZE: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"

# JSON arrays take half as long as objects, for SQLite and for the decoder. All texts are read
# as bytes, because another program may have stored invalid UTF-8.
_PLANTS: Final = "json_group_array(json_array(id, name, tag))"
_ROW: Final = "id, CAST(name AS BLOB), CAST(tag AS BLOB)"
LISTED: Final = "json_group_array(json_array(listed_id, listed_size, listed_name, listed_tag))"
WITH_IDS: Final = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"

_SMALL_AND_LARGE: Final = f"""
CAST({_PLANTS} FILTER (WHERE {SIZE} < {LARGE_BYTES}) AS BLOB),
json_group_array(id) FILTER (WHERE {SIZE} >= {LARGE_BYTES})
"""

_encode = msgspec.json.Encoder().encode
_decode_plants = msgspec.json.Decoder(list[tuple[int, str, str | None]]).decode
_decode_listed = msgspec.json.Decoder(list[tuple[int, int, str, str | None]]).decode
decode_integers = msgspec.json.Decoder(list[int]).decode


def to_json(values: Sequence[Any]) -> str:
    """Return plants, integers or rows as a JSON text."""
    return _encode(values).decode()


class Listed(NamedTuple):
    """A plant of a listing: with its name and tag if it has at most LISTED_BYTES_MAX bytes.

    Attributes:
        id: of the plant.
        size: of its name and tag, in bytes.
        name: the beginning of a larger plant's name, or an empty text.
        tag: None for a larger plant.

    """

    id: int
    size: int
    name: str
    tag: str | None

    @classmethod
    def all_from(cls, text: bytes) -> list[Self]:
        """Parse the value of LISTED."""
        try:
            rows = _decode_listed(text)
        except UnicodeDecodeError:
            rows = _decode_listed(_repaired(text))
        return [cls(*row) for row in rows]


def listed_columns(beginning: str = "''") -> str:
    """Return the SQL for the columns of a `Listed`, `listed_id` to `listed_tag`.

    SQLite reads a text that is a column of a subquery. So a subquery must have these columns, and
    not the name and the tag.

    Args:
        beginning: the SQL for the beginning of a larger plant's name.

    """
    is_small = f"{SIZE} <= {LISTED_BYTES_MAX}"
    return f"""id AS listed_id, {SIZE} AS listed_size,
    iif({is_small}, name, {beginning}) AS listed_name, iif({is_small}, tag, NULL) AS listed_tag"""


def fitting(rows: Sequence[Listed]) -> Sequence[Listed]:
    """Return the first rows, as many as fit on a page, and at least one if there is one."""
    totals = accumulate(row.size for row in rows)
    return rows[: max(1, sum(total <= PAGE_BYTES_MAX for total in totals))]


def select_listed(connection: apsw.Connection, rows: Sequence[Listed]) -> list[NewPlant]:
    """Return the plants of a page. Those that are too large for their rows are read now."""
    large = [row.id for row in rows if row.size > LISTED_BYTES_MAX]
    read = select_by_id(connection, large) if large else {}
    return [
        NewPlant(row.id, row.name, row.tag) if row.size <= LISTED_BYTES_MAX else read[row.id]
        for row in rows
    ]


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    query = f"SELECT {_SMALL_AND_LARGE} {WITH_IDS}"
    [(small, large)] = connection.execute(query, (to_json(ids),))
    plants = _plants_from_json(small)
    if large != "[]":
        plants += _plants_from_rows(connection.execute(f"SELECT {_ROW} {WITH_IDS}", (large,)))
    return {plant.id: plant for plant in plants}


def _plants_from_json(text: bytes) -> list[NewPlant]:
    try:
        found = _decode_plants(text)
    except UnicodeDecodeError:
        found = _decode_plants(_repaired(text))
    return [NewPlant(*row) for row in found]


def _repaired(text: bytes) -> str:
    """Return the text with U+FFFD for an invalid byte, so that the other plants can be read.

    A check finds it.
    """
    return text.decode(errors="replace")


def _plants_from_rows(rows: Iterable[tuple[int, bytes, bytes | None]]) -> list[NewPlant]:
    plants = []
    for id_, name, tag in rows:
        text = None if tag is None else tag.decode(errors="replace")
        plants.append(NewPlant(id_, name.decode(errors="replace"), text))
    return plants
