"""What a SQLite store keeps small: its write-ahead log, and the number of segments of its index."""

import contextlib
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Deletion
from plantstore.listings import Listing
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.file import LOG_BYTES_MAX
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.storage.sqlite.wal import CHECK_SECONDS, PAUSE_SECONDS, WAIT_SECONDS, WalLimit
from plantstore.store import TIDY_SECONDS, TIDY_SOON_SECONDS

pytestmark = pytest.mark.engines("sqlite")

MIB = 1024 * 1024


def log_bytes(path: Path) -> int:
    return path.with_name(f"{path.name}-wal").stat().st_size


def write(store: SQLiteStore, id_: int) -> None:
    """Make the log a mebibyte longer."""
    store.apply_changes([NewPlant(id_, "x" * MIB)])


@contextlib.contextmanager
def reading(path: Path) -> Iterator[None]:
    """Keep a read transaction open while the block runs."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.execute("BEGIN; SELECT count(*) FROM tokens").fetchall()
        yield


@contextlib.contextmanager
def overlapping_reads(path: Path) -> Iterator[None]:
    """Run readers while the block runs. Each begins before the previous one ends."""
    begun, stop = threading.Event(), threading.Event()

    def read() -> None:
        with contextlib.ExitStack() as last:
            while not stop.is_set():
                with contextlib.ExitStack() as next_:
                    next_.enter_context(reading(path))
                    last.close()
                    begun.set()
                    last.push(next_.pop_all())

    with ThreadPoolExecutor(1) as pool:
        reads = pool.submit(read)
        try:
            assert begun.wait(60)
            yield
        finally:
            stop.set()
        reads.result(60)


def test_the_log_is_bounded_while_readers_overlap(path: Path, store: SQLiteStore) -> None:
    now = 0.0  # this clock stands still while the writer waits for the readers
    store._wal_limit = WalLimit(store._writes, store._guard, monotonic=lambda: now)  # noqa: SLF001

    with overlapping_reads(path):
        sizes = []
        for id_ in range(60):
            now += CHECK_SECONDS
            write(store, id_)
            sizes.append(log_bytes(path))

    assert max(sizes) < LOG_BYTES_MAX + 4 * MIB


def test_the_writer_waits_briefly_for_a_long_read_and_then_pauses_before_the_next_wait(
    path: Path, store: SQLiteStore
) -> None:
    now = 0.0
    looks = 0

    def monotonic() -> float:
        nonlocal now, looks
        looks += 1
        now += WAIT_SECONDS / 10
        return now

    store._wal_limit = WalLimit(store._writes, store._guard, monotonic=monotonic)  # noqa: SLF001
    with reading(path):
        for id_ in range(17):
            now += CHECK_SECONDS
            write(store, id_)
        assert log_bytes(path) > LOG_BYTES_MAX
        waited, looks = looks, 0
        for id_ in range(17, 27):
            now += CHECK_SECONDS
            write(store, id_)
        assert looks <= 20 < waited, "two looks at the clock for each commit, and no more waiting"

    now += PAUSE_SECONDS
    write(store, 27)
    write(store, 28)

    assert log_bytes(path) <= LOG_BYTES_MAX


def test_a_long_log_is_truncated_once_it_has_no_readers(path: Path, store: SQLiteStore) -> None:
    write(store, 0)
    assert store.tidy() == TIDY_SECONDS
    assert log_bytes(path) > MIB, "a short log is not truncated"
    with reading(path):
        for id_ in range(1, 20):
            write(store, id_)
        assert store.tidy() == TIDY_SOON_SECONDS
        assert log_bytes(path) > LOG_BYTES_MAX

    assert store.tidy() == TIDY_SECONDS
    assert log_bytes(path) == 0
    write(store, 20)
    assert len(store.find_plants([*range(21)])) == 21


def segments(store: SQLiteStore) -> int:
    """Return the number of segments of the index that a search has to read."""
    query = "SELECT count(DISTINCT segid) FROM plant_words_idx"
    number: int = store._reads.execute(query).get  # noqa: SLF001
    return number


def test_an_idle_store_merges_the_segments_that_large_batches_left_and_then_writes_no_more(
    path: Path, store: SQLiteStore
) -> None:
    for first in range(0, 19_000, 1_000):
        store.apply_changes([NewPlant(id_, f"Abies {id_}") for id_ in range(first, first + 1_000)])
    before = segments(store)

    while store.tidy() == 0:
        pass

    assert segments(store) < before / 2
    merged_bytes = log_bytes(path)
    assert store.tidy() == TIDY_SECONDS
    assert log_bytes(path) == merged_bytes
    assert store.check().problems == []


@pytest.mark.parametrize("is_change", [False, True])
def test_commits_merge_the_segments_of_the_index_of_words(
    store: SQLiteStore, *, is_change: bool
) -> None:
    others = [Deletion(7)] if is_change else []
    numbers = []
    for id_ in range(100):
        store.apply_changes([NewPlant(id_, f"Abies alba {id_}"), *others])
        numbers.append(segments(store))

    assert max(numbers) <= 32
    found = store.list_plants(Listing(words=("abies",))).items
    expected = [id_ for id_ in range(100) if not is_change or id_ != 7]
    assert [plant.id for plant in found] == expected
    assert store.check().problems == []
