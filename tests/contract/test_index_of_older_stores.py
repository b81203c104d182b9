"""Stores of an older version are migrated, and get their index of words in many transactions."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import apsw
import pytest

from plantstore.errors import SchemaOutdatedError
from plantstore.listings import Count, Listing
from plantstore.observe import (
    Event,
    Migrated,
    MigrationStarted,
    MigrationStepStarted,
    PlantsIndexed,
)
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.migrate import Schema, SchemaPolicy, migrations, prepare
from plantstore.storage.postgres.maintenance import PostgresSchema
from plantstore.storage.postgres.servers import Servers
from plantstore.storage.postgres.url import parse_url
from plantstore.storage.sqlite.file import SQLiteSchema, make_file

if TYPE_CHECKING:
    from support.postgres import Databases

PLANTS = 2_500
NEWEST = 5

# The newest version of each engine's schema that has no index of words.
WITHOUT_WORDS = {"sqlite": 3, "postgres": 4}

Older = tuple[Schema, str]


@contextlib.contextmanager
def older_sqlite(path: Path) -> Iterator[Older]:
    """Make a file of the schema before the words, with plants."""
    make_file(str(path))
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        schema = SQLiteSchema(connection, "old")
        apply(schema, 1, WITHOUT_WORDS["sqlite"])
        rows = [(id_, f"Rosa × {id_}", "Rosa") for id_ in range(1, PLANTS + 1)]
        with connection:
            connection.executemany("INSERT INTO plants VALUES (?, ?, ?)", rows)
        yield schema, f"sqlite:///{path}"


@contextlib.contextmanager
def older_postgres(url: str) -> Iterator[Older]:
    """Do the same in a database."""
    servers = Servers(parse_url(url))
    with contextlib.closing(servers), contextlib.closing(servers.connect()) as connection:
        schema = PostgresSchema(connection, "old")
        apply(schema, 1, WITHOUT_WORDS["postgres"])
        connection.execute(
            b"INSERT INTO plants SELECT i, 'Rosa \xc3\x97 ' || i, 'Rosa'"
            b" FROM generate_series(1, %d) AS i" % PLANTS
        )
        yield schema, url


def apply(schema: Schema, first: int, last: int) -> None:
    steps = migrations(schema.engine)
    with schema.locked():
        for version in range(first, last + 1):
            schema.apply(steps[version - 1], version)


@pytest.fixture(params=["sqlite", "postgres"])
def older(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Older]:
    if request.param == "sqlite":
        with older_sqlite(tmp_path / "plants.db") as made:
            yield made
        return
    databases: Databases = request.getfixturevalue("databases")
    with older_postgres(databases.new()) as made:
        yield made


def clock(step: float) -> Callable[[], float]:
    """Return a clock that has advanced by so many seconds at each look."""
    return itertools.count(0, step).__next__


def test_the_index_of_an_older_store_is_continued_where_it_ended(older: Older) -> None:
    schema, url = older
    apply(schema, WITHOUT_WORDS[schema.engine] + 1, NEWEST)
    assert schema.index_next() < PLANTS

    with pytest.raises(SchemaOutdatedError) as caught:
        open_store(url, SchemaPolicy.REQUIRE)
    assert caught.value.explanation.endswith(" is not complete. Run: plantstore migrate")

    with contextlib.closing(open_store(url)) as store:
        found = store.list_plants(Listing(tag="Rosa", words=("2499",))).plants
        tagged = store.list_plants(Listing(tag="Rosa", has_total=True)).total
        total = store.list_plants(Listing(has_total=True)).total
        problems = store.check().problems

    assert found == [NewPlant(2_499, "Rosa × 2499", "Rosa")]
    assert (total, tagged) == (Count(PLANTS), Count(PLANTS))
    assert problems == []
    open_store(url, SchemaPolicy.REQUIRE).close()


def test_a_migration_reports_each_step_and_how_far_the_index_is_every_five_seconds(
    older: Older,
) -> None:
    """The clock is looked at once at the start, at the start of the index, and after each part."""
    schema, _ = older
    events: list[Event] = []

    prepare(schema, SchemaPolicy.MIGRATE, events.append, clock(2.5))

    before = WITHOUT_WORDS[schema.engine]
    assert events == [
        MigrationStarted(before, NEWEST),
        *map(MigrationStepStarted, range(before + 1, NEWEST + 1)),
        PlantsIndexed(0, PLANTS),
        PlantsIndexed(2_000, PLANTS),
        Migrated(NEWEST, 12.5),
    ]


def test_a_store_that_is_up_to_date_reports_nothing(older: Older) -> None:
    schema, _ = older
    prepare(schema, SchemaPolicy.MIGRATE)
    events: list[Event] = []

    prepare(schema, SchemaPolicy.MIGRATE, events.append)

    assert events == []
