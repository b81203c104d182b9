"""A SQLite store reads little of large plants besides what it returns or compares."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.changes import Outcome
from plantstore.listings import PAGE_BYTES_MAX, Listing
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.file import PAGE_BYTES
from plantstore.storage.sqlite.pages import READ_AT_ONCE
from plantstore.storage.sqlite.store import SQLiteStore

SIZE = 60_000
COUNT = 400
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


@pytest.mark.parametrize(("tag", "plants"), [(None, 2), (TAG, 4)])
def test_a_page_of_large_plants_ends_early_and_reads_little(
    store: SQLiteStore, tag: str | None, plants: int
) -> None:
    before = bytes_read()

    page = store.list_plants(Listing(limit=1000, tag=tag))

    assert (len(page.plants), page.is_last) == (plants, False)
    assert bytes_read() - before < HEADS_BYTES_MAX + READ_AT_ONCE * (SIZE + 2 * PAGE_BYTES)


def test_the_pages_of_large_plants_have_all_plants(store: SQLiteStore) -> None:
    found = [plant.id for plants in store.scan_plants() for plant in plants]

    assert found == [*range(2 * COUNT)]


def test_creates_with_the_ids_of_large_plants_are_refused_without_reading_the_plants(
    store: SQLiteStore,
) -> None:
    before = bytes_read()

    outcomes = store.apply_changes([NewPlant(id_, "other") for id_ in range(COUNT)])

    assert outcomes == [Outcome.ID_TAKEN] * COUNT
    assert bytes_read() - before < HEADS_BYTES_MAX


def test_a_plant_that_is_larger_than_a_page_has_a_page_of_its_own(store: SQLiteStore) -> None:
    """A request cannot store one, but another program can."""
    large = NewPlant(-1, "🌱" * PAGE_BYTES_MAX, "")
    store.apply_changes([large])

    page = store.list_plants(Listing(limit=1000))

    assert (page.plants, page.is_last) == ([large], False)
    assert store.find_plants([-1]) == {-1: large}
