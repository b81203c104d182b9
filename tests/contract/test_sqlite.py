"""The promises of a SQLite store beyond those of every store."""

import contextlib
import subprocess
import sys
import threading
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Outcome, Result
from plantstore.errors import StoreUnavailableError, UsageError
from plantstore.observe import DatabaseCreated, Event
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite.file import PAGE_BYTES, connect
from plantstore.storage.sqlite.store import SQLiteStore

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plants.db"


def test_stored_plants_exist_when_the_file_is_opened_again(path: Path) -> None:
    first = SQLiteStore(str(path))
    first.apply_changes([PLANT])
    first.close()

    second = SQLiteStore(str(path))

    assert second.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]
    second.close()


def test_only_the_owner_may_read_the_file_and_its_log(path: Path) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])

    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}

    assert modes == {"plants.db": 0o600, "plants.db-wal": 0o600, "plants.db-shm": 0o600}
    store.close()


def test_a_commit_is_synced_in_full(path: Path) -> None:
    store = SQLiteStore(str(path))

    # Only the connection itself knows its settings. docs/decisions/0020 gives the reasons for them.
    for connection in (store._writes, store._reads, store._tokens):  # noqa: SLF001
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("fullfsync") == 1
    store.close()


def test_a_new_file_has_small_pages_and_a_piece_of_the_index_fits_on_one(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(id_, f"word{id_} x{id_ * id_}") for id_ in range(3000)])
    with contextlib.closing(connect(str(path), str(path))) as connection:
        page_bytes = connection.pragma("page_size")
        pages = "SELECT pagetype, count(*) FROM dbstat WHERE name = 'plant_words_data' GROUP BY 1"
        counts = dict(connection.execute(pages))

    assert page_bytes == PAGE_BYTES
    assert counts["leaf"] > 10
    assert "overflow" not in counts


def test_a_file_with_other_pages_keeps_them(path: Path) -> None:
    with contextlib.closing(apsw.Connection(str(path))) as connection:
        connection.pragma("page_size", 4096)
        connection.execute("VACUUM")  # writes the first page
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(1, "a")])

    with contextlib.closing(connect(str(path), str(path))) as connection:
        assert connection.pragma("page_size") == 4096


def test_sqlite_is_new_enough_to_be_free_of_the_wal_reset_bug() -> None:
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


def test_a_probe_writes_to_the_log_and_changes_no_data(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        log = path.with_name("plants.db-wal")
        before, schema = log.read_bytes(), store.check()

        store.probe()

        assert len(log.read_bytes()) > len(before)
        assert store.check() == schema


def test_tokens_are_found_while_a_probe_waits_for_another_process(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        waits, go_on = threading.Event(), threading.Event()

        def wait(_polls: int) -> bool:
            waits.set()
            go_on.wait(60)
            return False

        store._probes.set_busy_handler(wait)  # noqa: SLF001
        failures: list[Exception] = []

        def probe() -> None:
            try:
                store.probe()
            except StoreUnavailableError as error:
                failures.append(error)

        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute("BEGIN IMMEDIATE")
            thread = threading.Thread(target=probe)
            thread.start()
            assert waits.wait(60)
            assert store.find_token(b"") is None
            go_on.set()
            thread.join()

        assert [str(failure) for failure in failures] == [
            "The database cannot be written: database is locked"
        ]


def test_only_one_of_two_stores_on_a_file_gets_an_id(path: Path) -> None:
    stores = [SQLiteStore(str(path)) for _ in range(2)]
    outcomes: list[list[Result]] = [[], []]
    barrier = threading.Barrier(2)

    def create(number: int) -> None:
        barrier.wait()
        for id_ in range(200):
            outcomes[number] += stores[number].apply_changes([NewPlant(id_, f"by {number}")])

    threads = [threading.Thread(target=create, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    pairs = [set(pair) for pair in zip(*outcomes, strict=True)]
    assert pairs == [{Outcome.STORED, Outcome.ID_TAKEN}] * 200
    for store in stores:
        store.close()


def test_many_processes_may_open_a_new_file_at_once(path: Path) -> None:
    program = (
        "import sys; from plantstore.storage import open_store; from plantstore.plants import *\n"
        "store = open_store(sys.argv[1]); input()\n"
        "print(*store.apply_changes([NewPlant(1, 'a')])); store.close()"
    )
    command = [sys.executable, "-c", program, f"sqlite:///{path}"]
    processes = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(8)
    ]

    printed = sorted(process.communicate("\n", timeout=60)[0].strip() for process in processes)

    assert printed == ["Outcome.ALREADY_STORED"] * 7 + ["Outcome.STORED"]


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


def test_a_file_may_be_opened_while_another_store_checkpoints_it(path: Path) -> None:
    writing = SQLiteStore(str(path))
    writing._writes.pragma("wal_autocheckpoint", 1)  # noqa: SLF001
    stop = threading.Event()

    def write() -> None:
        id_ = 0
        while not stop.is_set():
            id_ += 1
            writing.apply_changes([NewPlant(id_, "x" * 10_000)])

    writer = threading.Thread(target=write)
    writer.start()
    counts = []
    try:
        for _ in range(100):
            with contextlib.closing(SQLiteStore(str(path))) as opened:
                counts.append(opened.count_plants())
    finally:
        stop.set()
        writer.join()
        writing.close()

    assert counts == sorted(counts)
    assert counts[-1] > counts[0], "plants were stored meanwhile"


def test_a_file_in_a_missing_folder_and_a_folder_are_refused(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="No such file or directory"):
        SQLiteStore(str(tmp_path / "nowhere" / "plants.db"))
    with pytest.raises(StoreUnavailableError, match="not a regular file"):
        SQLiteStore(str(tmp_path))


@pytest.mark.parametrize("policy", [SchemaPolicy.MIGRATE, SchemaPolicy.CREATE])
def test_a_policy_that_may_create_a_database_reports_its_file_and_the_others_create_none(
    path: Path, policy: SchemaPolicy
) -> None:
    url = f"sqlite:///{path}"
    events: list[Event] = []

    for other in (SchemaPolicy.REQUIRE, SchemaPolicy.ACCEPT):
        with pytest.raises(StoreUnavailableError, match=f"No database at {path}"):
            open_store(url, other, observe=events.append)
        assert not path.exists()

    path.touch()
    for other in (SchemaPolicy.REQUIRE, SchemaPolicy.ACCEPT):
        with pytest.raises(StoreUnavailableError, match="empty; run `plantstore migrate`"):
            open_store(url, other, observe=events.append)
        assert path.stat().st_size == 0
    path.unlink()

    for _ in range(2):
        open_store(url, policy, observe=events.append).close()
    assert events == [DatabaseCreated(str(path))]


@pytest.mark.parametrize(
    "url",
    [
        "",
        "plants.db",
        "sqlite:",
        "sqlite://plants.db",
        "sqlite:///",
        "sqlite:///:memory:",
        "sqlite:///plants.db?mode=ro",
    ],
)
def test_a_url_that_names_no_store_is_refused(url: str) -> None:
    with pytest.raises(UsageError):
        open_store(url)
