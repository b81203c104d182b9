"""The promises of a SQLite store beyond those of every store: its file, its locks and its reads."""

import contextlib
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import apsw
import pytest

from plantstore.errors import FeedError, StoreUnavailableError, UsageError
from plantstore.listings import Listing, Place, TagListing
from plantstore.observe import DatabaseCreated, Event
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite.file import PAGE_BYTES, connect
from plantstore.storage.sqlite.sqlite_feed import POLL_SECONDS, waiter
from plantstore.storage.sqlite.sqlite_pages import (
    EXAMINE_SORTED,
    MAKE_VOCABULARY,
    examine_next_query,
    examine_query,
    page_query,
)
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.storage.sqlite.sqlite_tags import MAKE_COUNTS, tags_query
from plantstore.storage.tables import hand_out_query, hand_out_values
from plantstore.store import CONNECTIONS_MAX
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

    # One of them waits for changes, and is opened when there are streams.
    assert files.count(path) == CONNECTIONS_MAX - 1


def test_a_new_file_has_small_pages_and_a_piece_of_the_index_fits_on_one(
    path: Path, store: SQLiteStore
) -> None:
    store.apply_changes([NewPlant(id_, f"word{id_} x{id_ * id_}") for id_ in range(3000)])

    with contextlib.closing(connect(str(path), str(path))) as connection:
        page_bytes = connection.pragma("page_size")
        pages = "SELECT pagetype, count(*) FROM dbstat WHERE name = 'plant_words_data' GROUP BY 1"
        counts = dict(connection.execute(pages))

    assert page_bytes == PAGE_BYTES
    assert counts["leaf"] > 10
    assert "overflow" not in counts


def test_a_probe_writes_to_the_log_and_changes_no_data(path: Path, store: SQLiteStore) -> None:
    log = path.with_name("plants.db-wal")
    before, report = log.read_bytes(), store.check()

    store.probe()

    assert len(log.read_bytes()) > len(before)
    assert store.check() == report


@pytest.mark.parametrize(
    ("connection", "act"),
    [
        ("_small_writes", lambda store: store.probe()),
        ("_writes", lambda store: store.apply_changes([NewPlant(2, "b")])),
    ],
)
def test_tokens_and_plants_are_read_while_a_probe_or_a_change_waits_for_another_process(
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

        with pytest.raises(StoreUnavailableError, match="cannot be written: database is locked"):
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
            connect(str(path), "plants.db", wait=wait)

    assert polls == list(range(11))


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
    store: SQLiteStore, query: str, bindings: Any, step: str
) -> None:
    words = {"match": '"rosa" *', "after": 1, "limit": 100, "tag": None, "any_tag": True}
    words |= {"key": "rosa", "sorted": "[]", "begin": 0}
    words |= {"first": "a", "end": "b", "pattern": "*", "word": "rosa"}

    for make in (MAKE_VOCABULARY, MAKE_COUNTS):
        store._writes.execute(make)  # noqa: SLF001
    explain = f"EXPLAIN QUERY PLAN {query}"
    plan = store._writes.execute(explain, bindings or words)  # noqa: SLF001
    steps = [row[3] for row in plan]

    assert any(step in each for each in steps), steps
    assert "SCAN plants" not in steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps, "found in order, not sorted"


def bytes_read() -> int:
    """Return what this thread has read from files so far."""
    lines = Path("/proc/thread-self/io").read_text(encoding="ascii").splitlines()
    [count] = [line.split()[1] for line in lines if line.startswith("rchar")]
    return int(count)


def test_a_number_that_the_feed_never_had_is_refused_without_reading_changes(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.keep_changes(7)
        store.apply_changes([NewPlant(id_, "x" * 1_000) for id_ in range(400)])
    with contextlib.closing(SQLiteStore(str(path))) as reopened:
        before = bytes_read()

        with pytest.raises(FeedError):
            reopened.read_changes(1, 400)

        assert bytes_read() - before < 20 * PAGE_BYTES


class Versions:
    """A connection whose `data_version` changes when it is asked so often."""

    def __init__(self, changes_at: int) -> None:
        self.asked = 0
        self.changes_at = changes_at

    def pragma(self, _name: str) -> bool:
        self.asked += 1
        return self.asked >= self.changes_at


class Commits(threading.Event):
    """Is never waited for. Keeps how long a waiter would have waited."""

    def __init__(self) -> None:
        super().__init__()
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None
        self.waits.append(timeout)
        return False


def test_between_two_polls_for_commits_of_others_a_waiter_waits_for_one_of_its_process() -> None:
    versions: Any = Versions(changes_at=5)
    commits = Commits()
    wait = waiter(versions, commits)

    commits.set()
    are_changes = [wait(60), wait(0)]

    assert are_changes == [True, False]
    assert commits.waits == [POLL_SECONDS] * 3
    assert not commits.is_set(), "it would not wait any more"


def test_a_commit_wakes_what_watches_the_store_until_the_end_of_the_watch(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        with store.watch_changes() as wait:
            [watcher] = store._watchers  # noqa: SLF001
            assert not wait(0)
            store.apply_changes([NewPlant(1, "a")])
            assert watcher.is_set()
            assert wait(60)
        assert store._watchers == ()  # noqa: SLF001
