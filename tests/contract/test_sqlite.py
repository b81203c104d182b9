"""A SQLite store, beyond the promises of every store: its files, its locks and its reads."""

import contextlib
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from plantstore.changes import Deletion, Outcome, Upsert
from plantstore.errors import (
    BatchRefusedError,
    NothingDoneError,
    StoreUnavailableError,
    UsageError,
)
from plantstore.listings import Listing, Place, TagListing
from plantstore.observe import DatabaseCreated, Event
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite.file import connect
from plantstore.storage.sqlite.sqlite_pages import page_query
from plantstore.storage.sqlite.sqlite_searches import (
    EXAMINE_SORTED,
    MAKE_VOCABULARY,
    examine_next_query,
    examine_query,
)
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.storage.sqlite.sqlite_tags import tags_query
from plantstore.storage.sqlite.wal import (
    LOG_BYTES_MAX,
    PAUSE_SECONDS,
    WAIT_SECONDS,
    WalLimit,
)
from plantstore.storage.tables import hand_out_query, hand_out_values
from plantstore.store import MAINTENANCE_RETRY_SECONDS, MAINTENANCE_SECONDS, READS_AT_ONCE
from support.stores import read_all

pytestmark = pytest.mark.engines("sqlite")

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


def test_only_the_owner_may_read_the_file_and_its_log(path: Path, store: SQLiteStore) -> None:
    store.apply_changes([PLANT])

    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}

    assert modes == {"plants.db": 0o600, "plants.db-wal": 0o600, "plants.db-shm": 0o600}


def test_a_commit_is_synced_in_full(store: SQLiteStore) -> None:
    # Only the connection itself knows its settings.
    for connection in (store._writes, store._lookups, store._small_writes):  # noqa: SLF001
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("fullfsync") == 1


def test_each_read_that_may_run_at_once_has_a_connection(store: SQLiteStore, path: Path) -> None:
    store.apply_changes([PLANT])

    files = [file.readlink() for file in Path("/proc/self/fd").iterdir() if file.is_symlink()]

    # The others apply changes, read tokens, and write everything else.
    assert files.count(path) == READS_AT_ONCE + 3


def test_a_check_writes_to_the_log_and_changes_no_data(path: Path, store: SQLiteStore) -> None:
    log = path.with_name("plants.db-wal")
    before, report = log.read_bytes(), store.check()

    store.check_writable()

    assert len(log.read_bytes()) > len(before)
    assert store.check() == report


def test_a_command_that_only_reads_writes_neither_the_database_nor_its_log(
    path: Path, store: SQLiteStore
) -> None:
    store.check_writable()
    files = [path, Path(f"{path}-wal")]
    for file in files:
        os.utime(file, (0, 0))

    with contextlib.closing(SQLiteStore(str(path), SchemaPolicy.ACCEPT)) as reader:
        assert reader.list_tokens() == []

    assert [file.stat().st_mtime for file in files] == [0, 0]


@pytest.mark.parametrize(
    ("connection", "act"),
    [
        ("_small_writes", lambda store: store.check_writable()),
        ("_writes", lambda store: store.apply_changes([NewPlant(2, "b")])),
        ("_writes", lambda store: store.apply_changes([Deletion(1)])),
    ],
)
def test_tokens_and_plants_are_read_while_a_check_or_a_change_waits_for_another_process(
    path: Path, store: SQLiteStore, connection: str, act: Callable[[SQLiteStore], object]
) -> None:
    store.apply_changes([PLANT])
    store.keep_changes(7)
    before = read_all(store)
    waits, go_on = threading.Event(), threading.Event()

    def wait(_polls: int) -> bool:
        waits.set()
        go_on.wait(60)
        return False

    getattr(store, connection).set_busy_handler(wait)
    with contextlib.closing(apsw.Connection(str(path))) as other, ThreadPoolExecutor(1) as pool:
        other.execute("BEGIN IMMEDIATE; DELETE FROM plants")
        waiting = pool.submit(act, store)
        assert waits.wait(60)
        meanwhile = read_all(store)
        go_on.set()

        with pytest.raises(NothingDoneError, match="cannot be written: database is locked"):
            waiting.result(60)
        assert meanwhile == before


def test_the_wait_to_switch_a_file_in_use_to_wal_mode_is_bounded(path: Path) -> None:
    SQLiteStore(str(path)).close()
    polls: list[int] = []

    def wait(number: int) -> bool:
        polls.append(number)
        return number < 10

    with contextlib.closing(apsw.Connection(str(path))) as other:
        other.pragma("journal_mode", "DELETE")
        other.execute("BEGIN; SELECT count(*) FROM plants").fetchall()

        with pytest.raises(apsw.BusyError):
            connect(str(path), lambda _: None, wait=wait)

    assert polls == list(range(11))


def test_a_row_that_a_trigger_refuses_refuses_its_batch(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        with contextlib.closing(apsw.Connection(str(path))) as operator:
            operator.execute("""
                CREATE TRIGGER rule BEFORE INSERT ON plants WHEN new.name = 'no'
                BEGIN SELECT RAISE(ABORT, 'that is the rule'); END
            """)

        for change in (NewPlant(2, "no"), Upsert(NewPlant(2, "no"))):
            with pytest.raises(BatchRefusedError, match="cannot be written"):
                store.apply_changes([NewPlant(1, "yes"), change])

        assert not store.find_plants([1, 2])
        assert store.apply_changes([NewPlant(1, "yes")]) == [Outcome.STORED]


def test_a_plant_without_a_key_is_left_out_of_a_search_in_order_by_name(
    path: Path, store: SQLiteStore
) -> None:
    store.apply_changes([NewPlant(id_, "Rosa") for id_ in (1, 2, 3)])
    with contextlib.closing(apsw.Connection(str(path))) as other:
        other.execute("UPDATE plants SET name_key = NULL WHERE id = 2")

    page = store.list_plants(Listing(words=("rosa",), place=Place()))

    assert [plant.id for plant in page.items] == [1, 3]


def test_a_file_in_a_missing_folder_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="No such file or directory"):
        SQLiteStore(str(tmp_path / "nowhere" / "plants.db"))
    with pytest.raises(StoreUnavailableError, match="not a regular file"):
        SQLiteStore(str(tmp_path))


def test_a_policy_that_may_create_a_database_reports_its_file_and_the_others_create_none(
    path: Path,
) -> None:
    url = f"sqlite:///{path}"
    events: list[Event] = []

    for policy in (SchemaPolicy.REQUIRE, SchemaPolicy.ACCEPT):
        with pytest.raises(StoreUnavailableError, match=f"No database at {path}"):
            open_store(url, policy, observe=events.append)
        assert not path.exists()
    for policy in (SchemaPolicy.CREATE, SchemaPolicy.MIGRATE):
        for _ in range(2):
            open_store(url, policy, observe=events.append).close()
        path.unlink()
    path.touch()  # an empty file is no store, either
    open_store(url, observe=events.append).close()

    assert events == [DatabaseCreated(str(path))] * 3


@pytest.mark.parametrize(
    "url",
    [
        *("", "plants.db", "sqlite:", "sqlite://plants.db", "sqlite:///", "sqlite:///:memory:"),
        "sqlite:///plants.db?mode=ro",
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)


def test_sqlite_has_no_roles(path: Path) -> None:
    with pytest.raises(UsageError, match="--grant-to needs PostgreSQL: SQLite has no roles"):
        open_store(f"sqlite:///{path}", grant_to="a")


# FTS5 describes its plan by a string: M is MATCH, and > or < a bound of the rowid.
@pytest.mark.usefixtures("store")
@pytest.mark.parametrize(
    ("query", "bindings", "step"),
    [
        (page_query(Listing()), {}, "SEARCH plants USING INTEGER PRIMARY KEY (rowid>?)"),
        (page_query(Listing(after=5)), {}, "SEARCH plants USING INTEGER PRIMARY KEY (rowid>?)"),
        (examine_query(Listing(after=5)), {}, "M"),
        (examine_query(Listing(after=5, is_descending=True)), {}, "M"),
        (hand_out_query("?", "max"), hand_out_values(1), "SEARCH plants"),
        (examine_next_query(Place()), {}, "vocabulary VIRTUAL TABLE"),
        (examine_next_query(Place("rosa", 5)), {}, "vocabulary VIRTUAL TABLE"),
        (examine_next_query(Place("rosa", 5)), {}, "M"),
        (EXAMINE_SORTED, {}, "SEARCH plants USING INTEGER PRIMARY KEY (rowid=?)"),
        (tags_query(TagListing()), {}, "counts VIRTUAL TABLE"),
    ],
    ids=[
        *("the first page", "a later page", "a search", "a search from the end", "new ids"),
        *("all plants by name", "all by name after one", "all by name after one with its key"),
        *("found plants by name", "tags"),
    ],
)
def test_every_query_uses_an_index_and_sorts_nothing(
    path: Path, query: str, bindings: Any, step: str
) -> None:
    words = {"match": '"rosa" *', "after": 1, "limit": 100, "bytes_max": 1, "tag": None}
    words |= {"any_tag": True, "key": "rosa", "sorted": "[]", "begin": 0}
    words |= {"first": "a", "end": "b", "pattern": "*", "word": "rosa"}

    with contextlib.closing(connect(str(path), lambda _: None)) as connection:
        connection.execute(MAKE_VOCABULARY)
        plan = connection.execute(f"EXPLAIN QUERY PLAN {query}", bindings or words)
        steps = [row[3] for row in plan]

    assert any(step in each for each in steps), steps
    assert "SCAN plants" not in steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps, "found in order, not sorted"


def test_a_commit_wakes_what_watches_the_store_until_the_end_of_the_watch(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        with store.watch_changes() as wait:
            [watcher] = store._watchers  # noqa: SLF001
            assert not wait(0)
            store.apply_changes([NewPlant(1, "a")])
            assert watcher.is_set()
            assert wait(60)
            assert not wait(0.01)
            assert not watcher.is_set(), "or no wait would wait any more"
        assert store._watchers == ()  # noqa: SLF001


# What a store keeps small: its write-ahead log, and the number of segments of its index.

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
        looks = 0
        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            with pytest.raises(apsw.BusyError):
                write(1)
        assert looks == 0, "it waits for other writers as before"


def test_a_long_log_is_truncated_once_it_has_no_readers(path: Path, store: SQLiteStore) -> None:
    write(store, 0)
    assert store.maintain() == MAINTENANCE_SECONDS
    assert log_bytes(path) > MIB, "a short log is not truncated"
    with reading(path):
        for id_ in range(1, 20):
            write(store, id_)
        assert store.maintain() == MAINTENANCE_RETRY_SECONDS
        assert log_bytes(path) > LOG_BYTES_MAX

    assert store.maintain() == MAINTENANCE_SECONDS
    assert log_bytes(path) == 0
    write(store, 20)
    assert len(store.find_plants([*range(21)])) == 21


def segments(path: Path) -> int:
    """Return the number of segments of the index that a search has to read."""
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        return int(connection.execute("SELECT count(DISTINCT segid) FROM plant_words_idx").get)


def test_an_idle_store_merges_the_segments_that_large_batches_left_and_then_writes_no_more(
    path: Path, store: SQLiteStore
) -> None:
    for first in range(0, 19_000, 1_000):
        store.apply_changes([NewPlant(id_, f"Abies {id_}") for id_ in range(first, first + 1_000)])
    before = segments(path)

    while store.maintain() == 0:
        pass

    assert segments(path) < before / 2
    merged_bytes = log_bytes(path)
    assert store.maintain() == MAINTENANCE_SECONDS
    assert log_bytes(path) == merged_bytes
    assert store.check().problems == []


@pytest.mark.parametrize("is_change", [False, True])
def test_commits_merge_the_segments_of_the_index_of_words(
    path: Path, store: SQLiteStore, *, is_change: bool
) -> None:
    others = [Deletion(7)] if is_change else []
    numbers = []
    for id_ in range(100):
        store.apply_changes([NewPlant(id_, f"Abies alba {id_}"), *others])
        numbers.append(segments(path))

    assert max(numbers) <= 32
    found = store.list_plants(Listing(words=("abies",))).items
    expected = [id_ for id_ in range(100) if not is_change or id_ != 7]
    assert [plant.id for plant in found] == expected
    assert store.check().problems == []
