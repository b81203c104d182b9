"""Listings and scans of a SQLite file: their cost, and the concurrent changes that they see."""

import contextlib
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Deletion, Outcome
from plantstore.listings import PAGE_BYTES_MAX, Listing, Page
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.pages import examine_query, page_query
from plantstore.storage.sqlite.store import SQLiteStore

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plants.db"


@pytest.mark.parametrize("after", [None, 5])
def test_every_listing_uses_an_index(path: Path, after: int | None) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        explain = f"EXPLAIN QUERY PLAN {page_query(Listing(after=after))}"
        bindings = {"after": after, "limit": 100}

        steps = [row[3] for row in store._reads.execute(explain, bindings)]  # noqa: SLF001

    assert "SEARCH plants USING INTEGER PRIMARY KEY (rowid>?)" in steps
    assert "SCAN plants" not in steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps, "found in order, not sorted"


@pytest.mark.parametrize("order", ["rowid", "rowid DESC"])
def test_a_search_reads_the_index_of_words_in_order(path: Path, order: str) -> None:
    query = examine_query(is_descending=order != "rowid", is_first=False)
    with contextlib.closing(SQLiteStore(str(path))) as store:
        explain = f"EXPLAIN QUERY PLAN {query}"
        bindings = {"match": '"rosa" *', "after": 1, "limit": 100, "tag": None, "has_names": True}

        steps = [row[3] for row in store._reads.execute(explain, bindings)]  # noqa: SLF001

    # FTS5 describes its plan by a string: M is MATCH, and > or < a bound of the rowid.
    assert any("VIRTUAL TABLE INDEX" in step and "M" in step for step in steps), steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps, "found in order, not sorted"


def test_a_page_of_very_long_names_ends_early_and_the_next_page_continues(path: Path) -> None:
    half = PAGE_BYTES_MAX // 2
    plants = [NewPlant(id_, "×" * (half // 2)) for id_ in range(5)]
    plants += [NewPlant(5, "x" * 10 * half), NewPlant(6, "x"), NewPlant(7, "x")]
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes(plants)

        sizes, seen, page = [], [], Page([], is_last=False)
        while not page.is_last:
            after = page.plants[-1].id if page.plants else None
            page = store.list_plants(Listing(after=after, limit=1000))
            sizes.append(sum(len(plant.name.encode()) for plant in page.plants))
            seen += page.plants

        assert seen == plants
        assert all(
            size <= PAGE_BYTES_MAX or size == 10 * half  # one plant alone, whatever its size
            for size in sizes
        )
        assert [plants for plants in store.scan_plants() if len(plants) > 3] == []


def test_reads_continue_during_a_write_and_see_it_once_it_is_committed(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([PLANT])
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE; DELETE FROM plants")

        assert store.find_plants([1]) == {1: PLANT}
        assert store.list_plants(Listing(limit=1, tag="Abies")).plants == [PLANT]
        other.execute("COMMIT")
        assert store.find_plants([1]) == {}
        other.close()


def test_a_scan_never_makes_a_change_wait(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(id_, "a") for id_ in range(3000)])
        scan = store.scan_plants()
        next(scan)

        assert store.apply_changes([NewPlant(5000, "b")]) == [Outcome.STORED]
        assert sum(len(plants) for plants in scan) == 2000


def test_an_idle_store_merges_the_segments_of_the_index_of_words(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        for id_ in range(100):
            store.apply_changes([NewPlant(id_, f"Abies alba {id_}")])
        store.apply_changes([Deletion(7)])
        before = segments(store)

        while store.tidy() == 0:
            pass

        assert segments(store) <= 2 < before
        found = store.list_plants(Listing(words=("abies",))).plants
        assert [plant.id for plant in found] == [id_ for id_ in range(100) if id_ != 7]
        assert store.check().problems == []


def segments(store: SQLiteStore) -> int:
    """Return the number of segments that a search has to read."""
    query = "SELECT count(DISTINCT segid) FROM plant_words_idx"
    number: int = store._reads.execute(query).get  # noqa: SLF001
    return number
