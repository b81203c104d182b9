"""Damages single pages of SQLite files that no process uses."""

import contextlib
import os
import struct
from pathlib import Path
from typing import Final

import apsw

# An empty leaf of a table: no free blocks, no cells, and the content begins behind the page
# (https://sqlite.org/fileformat2.html#b_tree_pages).
_EMPTY_LEAF: Final = struct.Struct(">BHHHB")
_TABLE_LEAF: Final = 13


def empty_root(database: Path, table: str) -> None:
    """Overwrite the root page of a table with an empty page."""
    with contextlib.closing(apsw.Connection(str(database))) as connection:
        query = "SELECT rootpage FROM sqlite_schema WHERE name = ?"
        root = connection.execute(query, (table,)).get
        page_bytes = connection.pragma("page_size")
    with database.open("r+b") as file:
        file.seek((root - 1) * page_bytes)
        file.write(_EMPTY_LEAF.pack(_TABLE_LEAF, 0, 0, page_bytes, 0))
        file.flush()
        os.fsync(file.fileno())
