"""Changes databases as other programs, other versions of this one, and broken disks do."""

import contextlib
import os
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import apsw

from plantstore.plants import NewPlant
from plantstore.storage.migrate import Schema, migrations
from plantstore.storage.postgres.postgres_maintenance import PostgresSchema
from plantstore.storage.sqlite.file import APPLICATION_ID
from plantstore.storage.sqlite.sqlite_maintenance import SQLiteSchema
from support.postgres import connected, execute

# The schema of version 1.0.0 of each engine.
OLDEST: Final = {engine: min(migrations(engine)) for engine in ("sqlite", "postgres")}

# Both engines understand this.
_ROSES = """
WITH RECURSIVE numbers (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM numbers WHERE i <= {0})
INSERT INTO plants (id, name, tag) SELECT i, 'Rosa × ' || i, 'Rosa' FROM numbers WHERE i <= {0}
"""


def engine_of(url: str) -> str:
    return "sqlite" if url.startswith("sqlite") else "postgres"


def file_of(url: str) -> Path:
    """Return the file that a URL of SQLite names."""
    return Path(url.removeprefix("sqlite:///"))


def change(url: str, *statements: str) -> None:
    """Execute statements that the store knows nothing of."""
    for statement in statements:
        if engine_of(url) == "sqlite":
            with contextlib.closing(apsw.Connection(str(file_of(url)))) as connection:
                connection.execute(statement).fetchall()
        else:
            execute(url, statement)


def set_version(url: str, version: int) -> None:
    """Give the schema another version."""
    if engine_of(url) == "sqlite":
        change(url, f"PRAGMA user_version = {version}", f"PRAGMA application_id = {APPLICATION_ID}")
    else:
        numbers = f"SELECT generate_series(1, {version})"
        change(url, "DELETE FROM plantstore_migrations")
        change(url, f"INSERT INTO plantstore_migrations {numbers}")


def make_older(url: str, count: int) -> list[NewPlant]:
    """Make a store of version 1.0.0; return its plants."""
    oldest = OLDEST[engine_of(url)]
    change(url, migrations(engine_of(url))[oldest])
    set_version(url, oldest)
    change(url, _ROSES.format(count), f"UPDATE totals SET plants = {count}")
    return [NewPlant(id_, f"Rosa × {id_}", "Rosa") for id_ in range(1, count + 1)]


@contextlib.contextmanager
def schema_of(url: str) -> Iterator[Schema]:
    """Yield the schema of a database, for a migration."""
    if engine_of(url) == "sqlite":
        with contextlib.closing(apsw.Connection(str(file_of(url)))) as file:
            yield SQLiteSchema(file, "old")
    else:
        with connected(url) as connection:
            yield PostgresSchema(connection, "old")


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
