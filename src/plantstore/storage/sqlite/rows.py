"""How plants are passed to SQLite and back.

Many plants are passed as one JSON text in one row. For each row, apsw releases the interpreter
lock and has to wait to get it back. So a batch of changes or a page takes a few statements,
whatever its size.

Large plants are passed in one row each. As JSON, they would be copied several times, which
takes longer than the wait for the lock.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Final

import apsw
import msgspec

from plantstore.listings import PAGE_BYTES_MAX
from plantstore.plants import NewPlant

# The size from which a plant counts as large. A page holds at most sixteen of them.
LARGE_BYTES: Final = PAGE_BYTES_MAX // 16

# SQLite knows the size of a text without reading it.
SIZE: Final = "octet_length(name) + coalesce(octet_length(tag), 0)"

# JSON arrays take half as long as objects, for SQLite and for the decoder. All texts are read
# as bytes, because another program may have stored invalid UTF-8.
PLANTS: Final = "json_group_array(json_array(id, name, tag))"
ROW: Final = "id, CAST(name AS BLOB), CAST(tag AS BLOB)"
WITH_IDS: Final = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"

_SMALL_AND_LARGE: Final = f"""
CAST({PLANTS} FILTER (WHERE {SIZE} < {LARGE_BYTES}) AS BLOB),
json_group_array(id) FILTER (WHERE {SIZE} >= {LARGE_BYTES})
"""

_encode = msgspec.json.Encoder().encode
_decode_plants = msgspec.json.Decoder(list[tuple[int, str, str | None]]).decode
decode_integers = msgspec.json.Decoder(list[int]).decode


def to_json(values: Sequence[Any]) -> str:
    """Return plants, integers or rows as a JSON text."""
    return _encode(values).decode()


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    query = f"SELECT {_SMALL_AND_LARGE} {WITH_IDS}"
    [(small, large)] = connection.execute(query, (to_json(ids),))
    plants = plants_from_json(small)
    if large != "[]":
        plants += plants_from_rows(connection.execute(f"SELECT {ROW} {WITH_IDS}", (large,)))
    return {plant.id: plant for plant in plants}


def plants_from_json(text: bytes) -> list[NewPlant]:
    """Return the plants of `PLANTS`."""
    try:
        found = _decode_plants(text)
    except UnicodeDecodeError:
        # An invalid byte becomes U+FFFD, so that the other plants can be read. A check finds it.
        found = _decode_plants(text.decode(errors="replace"))
    return [NewPlant(*row) for row in found]


def plants_from_rows(rows: Iterable[tuple[int, bytes, bytes | None]]) -> list[NewPlant]:
    """Return the plants of rows of `ROW`."""
    plants = []
    for id_, name, tag in rows:
        text = None if tag is None else tag.decode(errors="replace")
        plants.append(NewPlant(id_, name.decode(errors="replace"), text))
    return plants
