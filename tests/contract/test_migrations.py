"""Databases that are new, or were written by an older or a newer version of this program."""

import contextlib
import itertools
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from plantstore.changes import Outcome, Result
from plantstore.errors import SchemaOutdatedError, StoreUnavailableError
from plantstore.listings import Count, Listing, Place, TagListing
from plantstore.observe import (
    Event,
    Migrated,
    MigrationStarted,
    PlantsIndexed,
)
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy, migrations, newest_version, prepare
from plantstore.store import CheckReport
from support.other_programs import (
    OLDEST,
    change,
    engine_of,
    file_of,
    make_older,
    schema_of,
    set_version,
)

NEWEST = {engine: newest_version(engine) for engine in OLDEST}


def test_an_older_schema_is_migrated_only_by_migrate_and_keeps_its_plants(database: str) -> None:
    plants = make_older(database, 2)
    oldest, newest = OLDEST[engine_of(database)], NEWEST[engine_of(database)]

    for policy in (SchemaPolicy.CREATE, SchemaPolicy.REQUIRE):
        with pytest.raises(
            SchemaOutdatedError, match=rf"has schema {oldest}, but {newest} is needed\. Run: "
        ):
            open_store(database, policy)
    with contextlib.closing(open_store(database, SchemaPolicy.ACCEPT)) as store:
        assert store.check() == CheckReport(oldest, 2, 0, [])
        assert store.list_plants(Listing(limit=1)).items == plants[:1]
        assert list(store.scan_plants()) == [plants]
    with contextlib.closing(open_store(database)) as store:
        assert store.check() == CheckReport(newest, 2, 0, [])
        assert store.list_plants(Listing(words=("ro", "2"))).items == plants[1:]
        assert store.list_plants(Listing(has_total=True)).total == Count(2)
        assert store.list_plants(Listing(place=Place())).items == plants
        assert store.list_tags(TagListing()).tags[0].plants == 2
    open_store(database, SchemaPolicy.REQUIRE).close()


# Names of which version 1.0.0 made other words, these words, and searches after the migration.
NAMES = ["d`Anjou", "\u0643\u0640\u062a\u0627\u0628", "Abies"]
OLD_WORDS = [["d", "anjou"], ["\u0643\u0640\u062a\u0627\u0628"], ["abies"]]
SEARCHES = [("danjou",), ("\u0643\u062a\u0627\u0628",), ("abies",)]


def test_names_that_had_other_words_are_found_after_a_migration(database: str) -> None:
    plants = make_old_words(database)

    with contextlib.closing(open_store(database, SchemaPolicy.ACCEPT)) as maintained:
        problems_before = maintained.check().problems
    with contextlib.closing(open_store(database)) as store:
        found = [store.list_plants(Listing(words=words)).items for words in SEARCHES]
        problems = store.check().problems

    assert problems_before == []
    assert found == [plants[:1], plants[1:2], plants[2:]]
    assert problems == []


def make_old_words(database: str) -> list[NewPlant]:
    """Make a store of version 1.0.0 whose plants have other words; return its plants."""
    engine = engine_of(database)
    make_older(database, 0)
    insert = "INSERT INTO plants (id, name, words) VALUES ({0}, '{1}', array_to_tsvector(ARRAY{2}))"
    if engine == "sqlite":
        insert = "INSERT INTO plants (id, name) VALUES ({0}, '{1}')"
        insert += "; INSERT INTO plant_words (rowid, words) VALUES ({0}, '{3}')"
    for id_, (name, words) in enumerate(zip(NAMES, OLD_WORDS, strict=True), 1):
        change(database, insert.format(id_, name, words, " ".join(words)))
    if engine == "postgres":
        keys = "array_to_string(tsvector_to_array(words), '0')"
        change(database, f"UPDATE plants SET name_key = {keys}")
    change(database, f"UPDATE totals SET plants = {len(NAMES)}")
    return [NewPlant(id_, name) for id_, name in enumerate(NAMES, 1)]


def test_a_newer_schema_is_refused(database: str) -> None:
    open_store(database).close()
    set_version(database, 99)

    for policy in SchemaPolicy:
        with pytest.raises(StoreUnavailableError, match="written by a newer Plant Store"):
            open_store(database, policy)


def test_a_schema_from_before_version_1_0_0_is_refused(database: str) -> None:
    open_store(database).close()
    set_version(database, OLDEST[engine_of(database)] - 1)

    for policy in SchemaPolicy:
        with pytest.raises(StoreUnavailableError, match=r"is older than version 1\.0\.0"):
            open_store(database, policy)


def test_an_empty_database_gets_a_schema_only_if_the_policy_may_create_one(database: str) -> None:
    if engine_of(database) == "sqlite":
        file_of(database).touch()

    for policy in (SchemaPolicy.REQUIRE, SchemaPolicy.ACCEPT):
        for _ in range(2):
            with pytest.raises(StoreUnavailableError, match="empty; run `plantstore migrate`"):
                open_store(database, policy)
    open_store(database, SchemaPolicy.CREATE).close()
    open_store(database, SchemaPolicy.REQUIRE).close()


def test_many_stores_may_be_opened_on_a_new_database_at_once(database: str) -> None:
    barrier = Barrier(10)

    def create(_: int) -> list[Result]:
        barrier.wait()
        with contextlib.closing(open_store(database)) as store:
            return store.apply_changes([NewPlant(1, "a")])

    with ThreadPoolExecutor(10) as pool:
        results = [result for results in pool.map(create, range(10)) for result in results]

    assert results.count(Outcome.STORED) == 1
    assert results.count(Outcome.ALREADY_STORED) == 9


@pytest.mark.parametrize("policy", [SchemaPolicy.MIGRATE, SchemaPolicy.COMPLETE])
def test_the_index_of_an_older_store_is_continued_where_it_ended(
    database: str, policy: SchemaPolicy
) -> None:
    engine = engine_of(database)
    plants = make_older(database, 2_500)
    with schema_of(database) as schema:
        for version in range(OLDEST[engine] + 1, NEWEST[engine] + 1):
            with schema.locked():
                schema.apply(migrations(engine)[version], version)
        assert next(schema.index()) < len(plants)

    with contextlib.closing(open_store(database, policy)) as store:
        found = store.list_plants(Listing(tag="Rosa", words=("2499",))).items
        tagged = store.list_plants(Listing(tag="Rosa", has_total=True)).total
        report = store.check()

    assert found == [plants[2_498]]
    assert tagged == Count(len(plants))
    assert report == CheckReport(NEWEST[engine], len(plants), 0, [])


def test_a_migration_reports_how_far_the_index_is_every_five_seconds(
    database: str,
) -> None:
    """The clock is looked at once at the start, at the start of the index, and after each part."""
    engine = engine_of(database)
    oldest, newest = OLDEST[engine], NEWEST[engine]
    make_older(database, 2_500)
    events: list[Event] = []
    clock = itertools.count(0, 2.5).__next__

    with schema_of(database) as schema:
        prepare(schema, SchemaPolicy.MIGRATE, events.append, clock)
        prepare(schema, SchemaPolicy.MIGRATE, events.append, clock)  # it is up to date

    assert events == [
        MigrationStarted(oldest, newest),
        PlantsIndexed(0, 2_500),
        PlantsIndexed(2_000, 2_500),
        Migrated(newest, 12.5),
    ]
