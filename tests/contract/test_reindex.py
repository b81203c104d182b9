"""The repair of what a store derives from its plants: the words, and the number of plants."""

import contextlib
import threading
from collections.abc import Iterator

import pytest

from plantstore.changes import Deletion, Replacement
from plantstore.errors import OperationError, StoreUnavailableError
from plantstore.listings import Count, Listing
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant
from plantstore.storage import open_store
from plantstore.store import Remedy, Repairs, Store
from support.other_programs import change, engine_of, set_version
from support.postgres import execute

# More than one page and one transaction of repairs.
PLANTS = [NewPlant(id_, f"Abies alba {id_}", "t" if id_ % 2 else None) for id_ in range(2_500)]
EDGES = [NewPlant(ID_MIN, "Rosa"), NewPlant(ID_MAX, "Rosa × alba", "Rosa"), NewPlant(9_000, "...")]


@pytest.fixture
def store(database: str) -> Iterator[Store]:
    with contextlib.closing(open_store(database)) as store:
        store.apply_changes([*PLANTS, *EDGES])
        yield store


def no_report(_done: int, _total: int) -> None:
    pass


# PostgreSQL has several rows, whose sum is the number of plants.
SEVEN_TOO_LOW = (
    "UPDATE totals SET plants = plants - 7 WHERE plants = (SELECT max(plants) FROM totals)"
)
DAMAGES = {
    "renamed": "UPDATE plants SET name = 'Rosa nigra' WHERE id % 3 = 0",
    "deleted": "DELETE FROM plants WHERE id % 2 = 0",
    "all deleted": "DELETE FROM plants",
    "total": "UPDATE totals SET plants = plants + 7",
    "no total": "DELETE FROM totals",
}
DAMAGES_OF_SQLITE = DAMAGES | {
    "stored": "INSERT INTO plants VALUES (5000, 'Rosa nigra', 'u'), (6000, 'Acer', NULL)",
    "tags": "UPDATE plants SET tag = 'u' WHERE id < 1200",
    "invalid text": "UPDATE plants SET name = CAST(x'66FF20666F' AS TEXT) WHERE id = 3",
    "without a word": (
        "INSERT INTO plant_words (plant_words, rowid, words) VALUES ('delete', 1, 'abies')"
    ),
    "words of no plant": "INSERT INTO plant_words (rowid, words) VALUES (7000, 'abies rosa')",
    "two totals": "INSERT INTO totals VALUES (3)",
    "without words": "INSERT INTO plant_words (plant_words) VALUES ('delete-all')",
    "not searchable": "DELETE FROM plant_words_idx",
    "not readable": "DELETE FROM plant_words_data",
}
DAMAGES_OF_POSTGRES = DAMAGES | {
    "stored": "INSERT INTO plants (id, name) VALUES (5000, 'Rosa nigra'), (6000, 'Acer')",
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
def test_reindex_repairs_a_difference_that_a_check_finds(
    database: str, store: Store, damage: str
) -> None:
    change(database, damage)
    assert store.check().remedy is Remedy.REINDEX

    repairs = store.reindex(no_report)

    assert repairs != Repairs(0, 0) or damage == DAMAGES_OF_SQLITE["two totals"]
    assert [each for each in store.check().problems if "UTF-8" not in each] == []
    everything = [plant for plants in store.scan_plants() for plant in plants]
    assert store.list_plants(Listing(limit=1, has_total=True)).total == Count(len(everything))
    for word in ("abies", "ros", "nigra", "acer", "2"):
        expected = [
            plant
            for plant in everything
            if any(each.startswith(word) for each in plant.name.lower().split())
        ]
        found = store.list_plants(Listing(words=(word,), limit=10_000)).plants
        assert found == expected[: len(found)]
        assert bool(found) == bool(expected)
    store.apply_changes([Deletion(plant.id) for plant in everything])
    assert store.check().problems == []


def test_nothing_is_written_if_there_is_no_difference(database: str, store: Store) -> None:
    reports: list[tuple[int, int]] = []

    repairs = store.reindex(lambda done, total: reports.append((done, total)))

    assert repairs == Repairs(0, 0)
    assert reports[-1] == (len(PLANTS) + len(EDGES), len(PLANTS) + len(EDGES))
    if engine_of(database) == "postgres":
        assert execute(database, "SELECT count(DISTINCT xmin::text) FROM plants") == [(1,)]


def test_words_and_total_are_repaired_while_another_store_changes_plants(
    database: str, store: Store
) -> None:
    change(database, "UPDATE plants SET name = 'Rosa nigra' WHERE id BETWEEN 0 AND 2000")
    change(database, SEVEN_TOO_LOW)
    has_ended = threading.Event()
    has_begun = threading.Event()
    stored: list[int] = []

    def write() -> None:
        with contextlib.closing(open_store(database)) as other:
            number = 0
            while not has_ended.is_set():
                id_ = 10_000 + number
                other.apply_changes([NewPlant(id_, f"Tilia {id_}")])
                # Some of these plants have words that the other program did not change.
                other.apply_changes([Replacement(number % 2_500, Plant(f"Acer {number}", "u"))])
                other.apply_changes([Deletion(2_499 - number % 2_500)])
                stored.append(id_)
                number += 1
                has_begun.set()

    writer = threading.Thread(target=write)
    writer.start()
    try:
        has_begun.wait(60)
        repairs = store.reindex(no_report)
        during = len(stored)
    finally:
        has_ended.set()
        writer.join()

    assert repairs.plants > 1_000
    assert repairs.missing == 7
    assert during > 0
    assert store.check().problems == []
    tilias = store.list_plants(Listing(words=("tilia",), limit=10_000)).plants
    assert [plant.id for plant in tilias] == stored[: len(tilias)]
    assert tilias


def test_an_interrupted_repair_is_continued_by_the_next_one(database: str, store: Store) -> None:
    change(database, "UPDATE plants SET name = 'Rosa nigra' WHERE id BETWEEN 0 AND 2499")

    def interrupt(done: int, _total: int) -> None:
        if done >= 1_000:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        store.reindex(interrupt)
    assert store.check().problems != []
    repairs = store.reindex(no_report)

    assert 0 < repairs.plants < 2_000, "what was repaired before the end is not repaired again"
    assert store.check().problems == []


def test_a_repair_gives_up_if_another_program_goes_on_to_damage_the_index(
    database: str, store: Store
) -> None:
    def damage(_done: int, _total: int) -> None:
        change(database, "UPDATE totals SET plants = plants + 1")

    damage(0, 0)
    with pytest.raises(OperationError, match="another program writes to the table of plants"):
        store.reindex(damage)


def test_nothing_is_repaired_in_a_schema_of_another_version(database: str, store: Store) -> None:
    change(database, SEVEN_TOO_LOW)
    set_version(database, 99)

    with pytest.raises(StoreUnavailableError, match=r"newer Plant Store|of another version"):
        store.reindex(no_report)

    total = store.list_plants(Listing(limit=1, has_total=True)).total
    assert total == Count(len(PLANTS) + len(EDGES) - 7)


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_the_words_of_a_plant_that_changes_after_the_snapshot_are_not_overwritten(
    database: str, store: Store
) -> None:
    change(database, "UPDATE plants SET name = 'Rosa nigra' WHERE id >= 0")
    found: list[bool] = []

    def rename_later_plants(done: int, _total: int) -> None:
        """Rename a plant of the same snapshot that is not compared yet, and search for it."""
        if done == 1_000:
            store.apply_changes([Replacement(1_900, Plant("Acer"))])
        for word in ("acer", "nigra"):
            page = store.list_plants(Listing(after=1_899, words=(word,), limit=1))
            found.append([plant.id for plant in page.plants] == [1_900])

    repairs = store.reindex(rename_later_plants)

    assert repairs.plants >= len(PLANTS)
    assert found == [True, False] * (len(found) // 2)
    assert store.check().problems == []
