"""Stores of an older version get their index of words, in many transactions."""

import contextlib
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from plantstore.errors import StoreUnavailableError
from plantstore.listings import Count, Listing
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy, migrations
from plantstore.storage.postgres.maintenance import PostgresSchema
from plantstore.storage.postgres.servers import Servers
from plantstore.storage.postgres.url import parse_url
from plantstore.storage.sqlite.file import SQLiteSchema, make_file

if TYPE_CHECKING:
    from support.postgres import Databases

PLANTS = 2_500
NAMES = "generate_series(1, 2500) AS i"

# The version of the schema of SQLite that has an index of words.
VERSION_OF_WORDS = 4


def begin_sqlite(path: Path) -> str:
    """Make a file of the schema before the words, with plants, and index some of them."""
    make_file(str(path))
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        schema = SQLiteSchema(connection, "old")
        for version, step in enumerate(migrations("sqlite"), 1):
            if version == VERSION_OF_WORDS:
                rows = [(id_, f"Rosa × {id_}", "Rosa") for id_ in range(1, PLANTS + 1)]
                connection.executemany("INSERT INTO plants VALUES (?, ?, ?)", rows)
            schema.apply(step, version)
        assert schema.index_next() < PLANTS
    return f"sqlite:///{path}"


def begin_postgres(url: str) -> str:
    """Do the same in a database."""
    servers = Servers(parse_url(url))
    with contextlib.closing(servers), contextlib.closing(servers.connect()) as connection:
        schema = PostgresSchema(connection, "old")
        *older, newest = migrations("postgres")
        with connection.transaction():
            for version, step in enumerate(older, 1):
                schema.apply(step, version)
            connection.execute(
                f"INSERT INTO plants SELECT i, 'Rosa × ' || i, 'Rosa' FROM {NAMES}".encode()
            )
            schema.apply(newest, len(older) + 1)
        assert schema.index_next() < PLANTS
    return url


@pytest.fixture(params=["sqlite", "postgres"])
def begun(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    if request.param == "sqlite":
        return begin_sqlite(tmp_path / "plants.db")
    databases: Databases = request.getfixturevalue("databases")
    return begin_postgres(databases.new())


def test_the_index_of_an_older_store_is_continued_where_it_ended(begun: str) -> None:
    with pytest.raises(StoreUnavailableError) as caught:
        open_store(begun, SchemaPolicy.REQUIRE)
    assert "is not complete; run `plantstore migrate`" in caught.value.explanation

    with contextlib.closing(open_store(begun)) as store:
        found = store.list_plants(Listing(tag="Rosa", words=("2499",))).plants
        tagged = store.list_plants(Listing(tag="Rosa", has_total=True)).total
        total = store.list_plants(Listing(has_total=True)).total
        problems = store.check().problems

    assert found == [NewPlant(2_499, "Rosa × 2499", "Rosa")]
    assert (total, tagged) == (Count(PLANTS), Count(PLANTS))
    assert problems == []
    open_store(begun, SchemaPolicy.REQUIRE).close()
