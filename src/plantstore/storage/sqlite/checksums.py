"""Finds plants whose name or tag is not what was stored.

SQLite notices a damaged page only if the damage breaks its structure. So each plant has a checksum,
made by `checksum_of`.

A plant that another program has stored or changed has none: a trigger removes it.
"""

from collections.abc import Sequence
from functools import partial
from typing import Final
from zlib import crc32

import apsw
import msgspec

from plantstore.listings import EVERYTHING, scan
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.sqlite_pages import (
    WITH_IDS,
    from_json,
    select_page_of_all,
    to_json,
)

# The version of the schema before plants had checksums.
VERSION_BEFORE_CHECKSUMS: Final = 12

# The greatest prime number below 2^32: the rest of an id depends on each of its bits.
_PRIME: Final = 2**32 - 5

_NOT_FOUND: Final = -1  # no checksum

# Ids of damaged plants that a message names.
_NAMED_MAX: Final = 10

_SELECT: Final = f"SELECT CAST(json_group_object(id, checksum) AS BLOB) {WITH_IDS}"
_CHECKSUMS: Final = msgspec.json.Decoder(dict[int, int | None])
_COUNT_OTHERS: Final = "SELECT count(*) FROM plants WHERE checksum IS NULL"


def checksum_of(id_: int, name: str, tag: str | None) -> int:
    """Return the CRC-32 of a name and a tag, separated by U+0000. It starts with the id."""
    return crc32(f"{name}\0{tag}".encode(), id_ % _PRIME)


def damaged(connection: apsw.Connection, plants: Sequence[NewPlant]) -> list[int]:
    """Return the ids of those of some stored plants that differ from their checksums."""
    text = connection.execute(_SELECT, (to_json([plant.id for plant in plants]),)).get
    known = from_json(_CHECKSUMS, text)
    ids = []
    for plant in plants:
        made = checksum_of(plant.id, plant.name, plant.tag)
        # A plant is not found by its id if the tree of plants is out of order.
        if known.get(plant.id, _NOT_FOUND) not in (None, made):
            ids.append(plant.id)
    return ids


def describe_damage(connection: apsw.Connection) -> str | None:
    """Return which plants of a snapshot are damaged, in words; None if none is."""
    pages = scan(partial(select_page_of_all, connection), EVERYTHING)
    found = [id_ for plants in pages for id_ in damaged(connection, plants)]
    if not found:
        return None
    ids = ", ".join(map(str, found[:_NAMED_MAX])) + (", ..." if len(found) > _NAMED_MAX else "")
    return f"the name or tag of {len(found):,} plants is not what was stored; ids: {ids}"


def describe_others(connection: apsw.Connection) -> str | None:
    """Return how many plants have no checksum, in words; None if all have one."""
    plants = connection.execute(_COUNT_OTHERS).get
    if not plants:
        return None
    return f"{plants:,} plants have no checksum, because another program stored them"
