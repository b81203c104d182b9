"""A SQLite store reads hardly more of large plants than it returns or compares."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.listings import PAGE_BYTES_MAX, Listing
from plantstore.plants import NewPlant, Plant
from plantstore.storage.sqlite.file import PAGE_BYTES
from plantstore.storage.sqlite.store import SQLiteStore

SIZE = 100_000
COUNT = 200
TAG = "x" * 30_000

# A look-up of a plant reads one page of the file for its head, and some pages of the tree.
HEADS_BYTES_MAX = COUNT * 4 * PAGE_BYTES


def bytes_read() -> int:
    """Return what this thread has read from files so far."""
    lines = Path("/proc/thread-self/io").read_text(encoding="ascii").splitlines()
    [count] = [line.split()[1] for line in lines if line.startswith("rchar")]
    return int(count)


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SQLiteStore]:
    """Yield a store with large plants that has not read any of them yet."""
    path = str(tmp_path / "plants.db")
    with contextlib.closing(SQLiteStore(path)) as filling:
        filling.apply_changes([NewPlant(id_, "x" * SIZE) for id_ in range(COUNT)])
        filling.apply_changes([NewPlant(COUNT + id_, "a", TAG) for id_ in range(COUNT)])
    with contextlib.closing(SQLiteStore(path)) as opened:
        yield opened


def test_a_page_of_large_plants_reads_hardly_more_than_it_returns(store: SQLiteStore) -> None:
    before = bytes_read()

    page = store.list_plants(Listing(limit=1000))

    assert (len(page.plants), page.is_last) == (1, False)
    assert bytes_read() - before < HEADS_BYTES_MAX + 2 * PAGE_BYTES_MAX


def test_a_page_of_a_long_tag_reads_hardly_more_than_it_returns(store: SQLiteStore) -> None:
    before = bytes_read()

    page = store.list_plants(Listing(limit=1000, tag=TAG))

    assert [plant.id for plant in page.plants] == [*range(COUNT, COUNT + 4)]
    assert not page.is_last
    # The tags of the plants that are examined are compared, too.
    assert bytes_read() - before < 16 * PAGE_BYTES_MAX


def test_creates_with_the_ids_of_large_plants_are_refused_without_reading_the_plants(
    store: SQLiteStore,
) -> None:
    before = bytes_read()

    outcomes = store.apply_changes([NewPlant(id_, "other") for id_ in range(COUNT)])

    assert outcomes == [Outcome.ID_TAKEN] * COUNT
    assert bytes_read() - before < HEADS_BYTES_MAX


def test_a_create_is_compared_only_with_a_large_plant_of_equal_size(
    store: SQLiteStore,
) -> None:
    creates = [NewPlant(id_, "x" * (SIZE - id_ // 2)) for id_ in range(COUNT)]
    creates[1] = NewPlant(1, "y" * SIZE)
    before = bytes_read()

    outcomes = store.apply_changes(creates)

    assert outcomes == [Outcome.ALREADY_STORED] + [Outcome.ID_TAKEN] * (COUNT - 1)
    assert bytes_read() - before < HEADS_BYTES_MAX + 4 * SIZE


def test_large_and_small_plants_are_returned_as_they_were_stored(store: SQLiteStore) -> None:
    large = [NewPlant(0, "×" * SIZE, ""), NewPlant(1, "🌱" * 9000), NewPlant(2, "a", "×" * 9000)]
    small = [NewPlant(3, "", ""), NewPlant(4, "b", "×")]
    store.apply_changes([Replacement(id_, Plant("", None)) for id_ in range(5)])
    store.apply_changes([Deletion(id_) for id_ in range(5)])
    assert store.apply_changes([*large, *small]) == [Outcome.STORED] * 5

    assert store.find_plants([*range(5)]) == {plant.id: plant for plant in large + small}
    assert store.list_plants(Listing(limit=5)).plants == large[:1]
    assert store.list_plants(Listing(after=0, limit=2)).plants == large[1:]
    assert store.list_plants(Listing(after=0, limit=4)).plants == large[1:] + small
    assert store.apply_changes([*large, *small]) == [Outcome.ALREADY_STORED] * 5
