"""Plants in SQLite: passes them to SQLite and back, and applies changes of them.

Many plants are passed as one JSON text in one row. For each row, apsw releases the interpreter
lock and has to wait to get it back. So a batch of changes or a page takes a few statements,
whatever its size.
"""

from collections.abc import Sequence
from itertools import accumulate
from typing import Any, Final

import apsw
import msgspec

from plantstore.changes import Change, Result
from plantstore.decision import decide, load_stored
from plantstore.listings import PAGE_BYTES_MAX
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.word_index import index_words

# Plants of a listing that are read at once. With the maximum size of a plant, it limits the memory
# for plants that do not fit on the page: 16 MiB.
READ_AT_ONCE: Final = 256

# JSON arrays take half as long as objects, for SQLite and for the decoder. All texts are read
# as bytes, because another program may have stored invalid UTF-8.
ARRAY: Final = "json_group_array(json_array(id, name, tag))"
PLANTS: Final = f"CAST({ARRAY} AS BLOB)"
WITH_IDS: Final = "FROM plants WHERE id IN (SELECT value FROM json_each(?))"

_encode = msgspec.json.Encoder().encode
_decode_plants = msgspec.json.Decoder(list[tuple[int, str, str | None]]).decode
decode_integers = msgspec.json.Decoder(list[int]).decode


def to_json(values: Sequence[Any]) -> str:
    """Return plants, integers or rows as a JSON text."""
    return _encode(values).decode()


def fitting(plants: list[NewPlant]) -> list[NewPlant]:
    """Return the first plants, as many as fit on a page, and at least one if there is one."""
    if sum(len(plant.name) + len(plant.tag or "") for plant in plants) * 4 <= PAGE_BYTES_MAX:
        return plants  # a character has at most four bytes
    totals = accumulate(len(f"{plant.name}{plant.tag or ''}".encode()) for plant in plants)
    return plants[: max(1, sum(total <= PAGE_BYTES_MAX for total in totals))]


def select_by_id(connection: apsw.Connection, ids: Sequence[int]) -> dict[int, NewPlant]:
    """Return the stored plants among these ids, by id."""
    text = connection.execute(f"SELECT {PLANTS} {WITH_IDS}", (to_json(ids),)).get
    return {plant.id: plant for plant in plants_from_json(text)}


def plants_from_json(text: bytes) -> list[NewPlant]:
    """Parse the value of PLANTS, or of ARRAY as bytes.

    An invalid byte becomes U+FFFD; a check finds it.
    """
    try:
        found = _decode_plants(text)
    except UnicodeDecodeError:
        found = _decode_plants(text.decode(errors="replace"))
    return [NewPlant(*row) for row in found]


_SIZES: Final = "json_group_array(json_array(id, octet_length(name), octet_length(tag)))"
_UPSERT: Final = """
INSERT INTO plants (id, name, tag)
SELECT value->>'id', value->>'name', value->>'tag' FROM jsonb_each(?) WHERE true
ON CONFLICT (id) DO UPDATE SET name = excluded.name, tag = excluded.tag
"""
_DELETE: Final = "DELETE FROM plants WHERE id IN (SELECT value FROM json_each(?))"
_COUNT: Final = "UPDATE totals SET plants = plants + ?"

_decode_sizes = msgspec.json.Decoder(list[tuple[int, int, int | None]]).decode


def apply_changes(connection: apsw.Connection, changes: Sequence[Change]) -> list[Result]:
    """Apply a batch of changes, in a transaction that the caller has begun."""
    ids = to_json([change.id for change in changes])
    sizes = _decode_sizes(connection.execute(f"SELECT {_SIZES} {WITH_IDS}", (ids,)).get)
    stored = load_stored(
        changes,
        {id_: (name, tag) for id_, name, tag in sizes},
        lambda ids: select_by_id(connection, ids),
    )
    outcomes, difference = decide(changes, dict(stored))
    index_words(connection, difference, stored)
    if difference.new or difference.changed:
        connection.execute(_UPSERT, (to_json(difference.new + difference.changed),))
    if difference.gone:
        connection.execute(_DELETE, (to_json(difference.gone),))
    if growth := len(difference.new) - len(difference.gone):
        connection.execute(_COUNT, (growth,))
    return outcomes
