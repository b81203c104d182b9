"""What a SQLite store keeps small: its write-ahead log, and the number of segments of its index."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Deletion
from plantstore.listings import Listing
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.file import LOG_BYTES_MAX
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.storage.sqlite.wal import PAUSE_SECONDS, WAIT_SECONDS, WalLimit
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
def limited(path: Path, monotonic: Callable[[], float]) -> Iterator[Callable[[int], None]]:
    """Yield a function that commits a mebibyte so many times, beside a limit of the log."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.pragma("journal_mode", "WAL")
        connection.execute("CREATE TABLE tokens (name)")
        limit = WalLimit(connection, pytest.fail, LOG_BYTES_MAX, monotonic)

        def write(times: int) -> None:
            for _ in range(times):
                connection.execute("INSERT INTO tokens VALUES (randomblob(1024 * 1024))")
                limit.bound()

        yield write


def test_the_log_is_bounded_while_readers_overlap(path: Path) -> None:
    looks, last, sizes = 0, contextlib.ExitStack(), []

    def read_on() -> None:
        """Begin the next read before the last one ends."""
        with contextlib.ExitStack() as next_:
            next_.enter_context(reading(path))
            last.close()
            last.push(next_.pop_all())

    def monotonic() -> float:
        nonlocal looks
        looks += 1
        if looks > 2:  # the writer waits
            read_on()
        return 0.0

    with limited(path, monotonic) as write, last:
        for _ in range(60):
            looks = 0
            read_on()
            write(1)
            sizes.append(log_bytes(path))

    assert max(sizes) < LOG_BYTES_MAX


def test_the_writer_waits_briefly_for_a_long_read_and_then_pauses_before_the_next_wait(
    path: Path,
) -> None:
    now = 0.0
    looks = 0

    def monotonic() -> float:
        nonlocal now, looks
        looks += 1
        now += WAIT_SECONDS / 10
        return now

    with limited(path, monotonic) as write:
        with reading(path):
            write(17)
            assert log_bytes(path) > LOG_BYTES_MAX
            waited, looks = looks, 0
            write(10)
            assert looks == 10 < waited, "one look at the clock for a commit, and no waiting"

        now += PAUSE_SECONDS
        write(1)
        size = log_bytes(path)
        write(5)

        assert log_bytes(path) == size, "the log was restarted"


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
    number: int = store._lookups.execute(query).get  # noqa: SLF001
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
