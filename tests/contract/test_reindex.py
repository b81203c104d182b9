"""What a store derives from its plants is made again: the words, and the number of plants."""

import asyncio
import contextlib
from collections.abc import Iterator
from typing import Any

import pytest

from plantstore.changes import Change, Deletion, Replacement
from plantstore.commit.reader import GroupRead
from plantstore.errors import RequestError, StoreUnavailableError
from plantstore.listings import Count, Listing, Place
from plantstore.observe import ignore
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Remedy, Store
from support.following import everything
from support.other_programs import change, engine_of, set_version

# They are indexed in several transactions.
PLANTS = [NewPlant(id_, f"Abies alba {id_}", "t" if id_ % 2 else None) for id_ in range(2_500)]
EDGES = [NewPlant(ID_MIN, "Rosa"), NewPlant(ID_MAX, "Rosa × alba", "Rosa"), NewPlant(9_000, "...")]


@pytest.fixture
def store(request: pytest.FixtureRequest, database: str) -> Iterator[Store]:
    plants = getattr(request, "param", PLANTS)
    with contextlib.closing(open_store(database)) as store:
        store.apply_changes([*plants, *EDGES])
        yield store


def no_report(_done: int, _total: int) -> None:
    pass


# PostgreSQL has several rows, whose sum is the number of plants.
SEVEN_TOO_LOW = (
    "UPDATE totals SET plants = plants - 7 WHERE plants = (SELECT max(plants) FROM totals)"
)
DAMAGES = {
    "stored": "INSERT INTO plants (id, name) VALUES (5000, 'Rosa nigra'), (6000, 'Acer')",
    "renamed": "UPDATE plants SET name = 'Rosa nigra' WHERE id % 3 = 0",
    "deleted": "DELETE FROM plants WHERE id % 2 = 0",
    "total": "UPDATE totals SET plants = plants + 7",
    "no total": "DELETE FROM totals",
}
DAMAGES_OF_SQLITE = DAMAGES | {
    "tags": "UPDATE plants SET tag = 'u' WHERE id < 1200",
    "other keys": "UPDATE plants SET name_key = 'rosa' WHERE id < 1200",
    "invalid text": "UPDATE plants SET name = CAST(x'66FF20666F' AS TEXT)",
    "two totals": "INSERT INTO totals VALUES (3)",
    "without words": "INSERT INTO plant_words (plant_words) VALUES ('delete-all')",
    "not searchable": "DELETE FROM plant_words_idx",
    "not readable": "DELETE FROM plant_words_data",
}
DAMAGES_OF_POSTGRES = DAMAGES | {
    "other words": "UPDATE plants SET words = 'rosa' WHERE id > 1200",
    "totals": "INSERT INTO totals VALUES (1000, 3), (1001, -8)",
}


@pytest.mark.parametrize(
    ("database", "damage"),
    [
        *(("sqlite", statement) for statement in DAMAGES_OF_SQLITE.values()),
        *(("postgres", statement) for statement in DAMAGES_OF_POSTGRES.values()),
    ],
    ids=[*(f"sqlite-{name}" for name in DAMAGES_OF_SQLITE), *DAMAGES_OF_POSTGRES],
    indirect=["database"],
)
# With EDGES, they fill two pages of a comparison in PostgreSQL.
@pytest.mark.parametrize("store", [PLANTS[:1_997]], indirect=True, ids=["few"])
def test_reindex_repairs_a_difference_that_a_check_finds(
    database: str, store: Store, damage: str
) -> None:
    change(database, damage)
    assert store.check().remedy is Remedy.REINDEX

    store.reindex(no_report)

    assert [each for each in store.check().problems if "UTF-8" not in each] == []
    plants = everything(store)
    assert store.list_plants(Listing(limit=1, has_total=True)).total == Count(len(plants))
    for word in ("abies", "ros", "nigra", "acer", "2"):
        expected = [
            plant
            for plant in plants
            if any(each.startswith(word) for each in plant.name.lower().split())
        ]
        found = store.list_plants(Listing(words=(word,), limit=10_000)).items
        assert found == expected[: len(found)]
        assert bool(found) == bool(expected)
    store.apply_changes([Deletion(plant.id) for plant in plants])
    assert store.check().problems == []


# A check looks at some of the plants only, and does not look for words of other plants.
UNNOTICED = [
    "INSERT INTO plant_words (plant_words, rowid, words) VALUES ('delete', 1, 'abies')",
    "INSERT INTO plant_words (rowid, words) VALUES (5, 'rosa'), (7000, 'abies rosa')",
]


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_reindex_repairs_differences_that_a_check_may_miss(database: str, store: Store) -> None:
    change(database, *UNNOTICED)

    store.reindex(no_report)

    for words, plants in ((("abies",), PLANTS), (("rosa",), [EDGES[0], EDGES[1]])):
        found = [plant for page in store.scan_plants(Listing(words=words)) for plant in page]
        assert found == plants


def test_words_and_total_are_repaired_while_another_store_changes_plants(
    database: str, store: Store
) -> None:
    change(database, "UPDATE plants SET name = 'Rosa nigra' WHERE id BETWEEN 0 AND 2000")
    change(database, SEVEN_TOO_LOW)
    stored: list[int] = []

    with contextlib.closing(open_store(database)) as other:

        def write(_done: int, _total: int) -> None:
            id_ = 10_000 + len(stored)
            stored.append(id_)
            other.apply_changes([NewPlant(id_, f"Tilia {id_}"), Deletion(2_499 - len(stored))])
            other.apply_changes([Replacement(len(stored), Plant("Acer", "u"))])
            other.apply_changes([Replacement(2_300 + len(stored), Plant("Acer", "u"))])

        store.reindex(write)

    assert len(stored) > 1
    assert store.check().problems == []
    for words, ids in (
        (("tilia",), stored),
        (("acer",), [id_ + 1 for base in (0, 2_300) for id_ in range(base, base + len(stored))]),
    ):
        assert [plant.id for plant in store.list_plants(Listing(words=words)).items] == ids


def interrupted(store: Store) -> None:
    """Begin to reindex, and stop after the first transactions, as a killed process does."""

    def interrupt(done: int, _total: int) -> None:
        if done >= 1_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.reindex(interrupt)


@pytest.mark.parametrize("is_reopened", [False, True])
def test_an_index_that_is_not_complete_is_completed_by_a_reindex_or_the_next_start(
    database: str, store: Store, *, is_reopened: bool
) -> None:
    change(database, "UPDATE plants SET name = 'Rosa nigra' WHERE id BETWEEN 0 AND 2499")
    interrupted(store)
    open_store(database, SchemaPolicy.REQUIRE).close()  # as by a command, which must not wait
    assert store.check().remedy is Remedy.REINDEX
    # Plants before and behind the last one that is in the index.
    changes: list[Change] = [
        *(NewPlant(-1, "Acer"), NewPlant(5_000, "Acer"), NewPlant(6_000, "Acer"), Deletion(6_000)),
        NewPlant(6_000, "Rosa"),
        *(Replacement(7, Plant("Acer", "t")), Replacement(2_400, Plant("Acer"))),
        *(Deletion(8), Deletion(2_401)),
    ]
    for each in changes:
        store.apply_changes([each])
    # FTS5 refuses to remove more plants than it has.
    store.apply_changes([Deletion(id_) for id_ in range(1_100, 2_400)])

    if is_reopened and engine_of(database) == "sqlite":
        open_store(database, SchemaPolicy.COMPLETE).close()
    else:
        store.reindex(no_report)

    assert store.check().problems == []
    found = store.list_plants(Listing(words=("acer",))).items
    assert [plant.id for plant in found] == [-1, 7, 2_400, 5_000]
    nigra = store.list_plants(Listing(words=("nigra",), limit=10_000)).items
    expected = [*range(7), *range(9, 1_100), *range(2_402, 2_500)]
    assert [plant.id for plant in nigra] == expected


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_search_in_an_index_that_is_not_complete_fails_and_other_reads_do_not(
    store: Store,
) -> None:
    interrupted(store)

    for listing in (Listing(words=("abies",)), Listing(tag="t")):
        with pytest.raises(StoreUnavailableError, match="not complete"):
            store.list_plants(listing)
    assert store.list_plants(Listing(limit=1, has_total=True)).total == Count(2_503)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_listing_by_name_in_an_index_that_is_not_complete_fails_alone(store: Store) -> None:
    interrupted(store)
    listings = [Listing(limit=1), Listing(place=Place()), Listing(limit=2), Listing(limit=3)]

    async def read() -> list[Any]:
        reader = GroupRead(store, observe=ignore)
        async with reader.running():
            reads = [reader.list_plants(listing) for listing in listings]  # one batch
            return await asyncio.gather(*reads, return_exceptions=True)

    first, failed, *others = asyncio.run(read())

    assert isinstance(failed, RequestError)
    assert "not complete" in failed.message
    assert [len(page.items) for page in (first, *others)] == [1, 2, 3]


def test_nothing_is_repaired_in_a_schema_of_another_version(database: str, store: Store) -> None:
    change(database, SEVEN_TOO_LOW)
    set_version(database, 99)

    with pytest.raises(StoreUnavailableError, match=r"newer Plant Store|of another version"):
        store.reindex(no_report)

    total = store.list_plants(Listing(limit=1, has_total=True)).total
    assert total == Count(len(PLANTS) + len(EDGES) - 7)
