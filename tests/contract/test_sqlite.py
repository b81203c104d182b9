"""What a store in a file promises beyond what every store does."""

import contextlib
import os
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from plantstore.errors import StoreUnavailableError, UsageError
from plantstore.plants import NewPlant, Plant
from plantstore.storage import open_store
from plantstore.storage.migrate import SchemaPolicy, migrations
from plantstore.storage.sqlite import file as sqlite_file
from plantstore.storage.sqlite.owner import APPLICATION_ID
from plantstore.storage.sqlite.plants import page_query, sizes_query
from plantstore.storage.sqlite.store import SQLiteStore
from plantstore.store import (
    PAGE_BYTES_MAX,
    Condition,
    Deletion,
    Outcome,
    Page,
    Replacement,
)

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plants.db"


def test_what_was_stored_is_there_when_the_file_is_opened_again(path: Path) -> None:
    first = SQLiteStore(str(path))
    first.apply_changes([PLANT])
    first.close()

    second = SQLiteStore(str(path))

    assert second.apply_changes([PLANT]) == [Outcome.ALREADY_STORED]
    second.close()


def test_the_file_and_its_log_are_readable_to_their_owner_alone(path: Path) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])

    modes = {file.name: file.stat().st_mode & 0o777 for file in path.parent.iterdir()}

    assert modes == {"plants.db": 0o600, "plants.db-wal": 0o600, "plants.db-shm": 0o600}
    store.close()


def test_a_commit_is_synced_in_full(path: Path) -> None:
    store = SQLiteStore(str(path))

    # Only the connection itself knows; docs/decisions/0002 says why these.
    for connection in (store._writes, store._reads, store._tokens):  # noqa: SLF001
        assert connection.pragma("journal_mode") == "wal"
        assert connection.pragma("synchronous") == 2
        assert connection.pragma("fullfsync") == 1
    store.close()


def test_sqlite_is_new_enough_to_be_free_of_the_wal_reset_bug() -> None:
    assert tuple(map(int, apsw.sqlite_lib_version().split("."))) >= (3, 51, 3)


def test_a_probe_writes_and_changes_nothing(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        log = path.with_name("plants.db-wal")
        before, schema = log.read_bytes(), store.check()

        store.probe()

        assert len(log.read_bytes()) > len(before)
        assert store.check() == schema


def test_while_a_probe_waits_for_another_process_tokens_are_found(path: Path) -> None:
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


def test_two_stores_on_one_file_take_an_id_once(path: Path) -> None:
    stores = [SQLiteStore(str(path)) for _ in range(2)]
    outcomes: list[list[Outcome]] = [[], []]
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


def test_when_the_disk_is_full_nothing_is_stored_and_it_goes_on_when_there_is_room(
    path: Path,
) -> None:
    store = SQLiteStore(str(path))
    large = NewPlant(2, "x" * 100_000)
    pages = store._writes.pragma("page_count")  # noqa: SLF001
    store._writes.pragma("max_page_count", pages)  # noqa: SLF001

    with pytest.raises(StoreUnavailableError, match="full"):
        store.apply_changes([PLANT, large])
    store._writes.pragma("max_page_count", 1_000_000)  # noqa: SLF001

    assert store.apply_changes([PLANT, large]) == [Outcome.STORED, Outcome.STORED]
    store.close()


def test_a_file_that_another_keeps_locked_is_unavailable_and_then_available(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plantstore.storage.sqlite.file.BUSY_POLLS_MAX", 10)
    store = SQLiteStore(str(path))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(StoreUnavailableError, match="locked"):
        store.apply_changes([PLANT])
    other.execute("ROLLBACK")

    assert store.apply_changes([PLANT]) == [Outcome.STORED]
    store.close()
    other.close()


def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path) -> None:
    path.write_bytes(b"roses are red " * 1000)

    with pytest.raises(StoreUnavailableError, match="not a database"):
        SQLiteStore(str(path))

    assert path.read_bytes() == b"roses are red " * 1000


def test_the_database_of_another_program_is_refused_and_left_alone(path: Path) -> None:
    connection = apsw.Connection(str(path))
    connection.execute("CREATE TABLE songs (title TEXT)")
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StoreUnavailableError, match="another program's"):
        SQLiteStore(str(path))

    assert path.read_bytes() == before


def test_a_file_that_another_keeps_from_its_log_is_waited_for_no_longer_than_any(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    SQLiteStore(str(path)).close()
    polls: list[int] = []
    wait = sqlite_file.wait_for_another
    monkeypatch.setattr(sqlite_file, "BUSY_POLLS_MAX", 10)

    def count_and_wait(number: int) -> bool:
        polls.append(number)
        return wait(number)

    monkeypatch.setattr(sqlite_file, "wait_for_another", count_and_wait)
    with contextlib.closing(apsw.Connection(str(path))) as other:
        other.pragma("journal_mode", "DELETE")
        other.execute("BEGIN; SELECT count(*) FROM plants").fetchall()

        with pytest.raises(StoreUnavailableError, match="locked"):
            SQLiteStore(str(path))

    assert len(polls) < 20


def test_a_database_of_a_newer_version_is_refused_and_left_alone(path: Path) -> None:
    SQLiteStore(str(path)).close()
    connection = apsw.Connection(str(path))
    connection.pragma("user_version", 999)
    connection.close()
    before = path.read_bytes()

    with pytest.raises(StoreUnavailableError, match="newer"):
        SQLiteStore(str(path))

    assert path.read_bytes() == before


def test_a_file_may_be_opened_while_another_checkpoints_it(path: Path) -> None:
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
    try:
        for _ in range(100):
            SQLiteStore(str(path)).close()
    finally:
        stop.set()
        writer.join()
        writing.close()


def test_a_file_that_is_read_only_is_refused() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plants.db"
        SQLiteStore(str(path)).close()
        path.chmod(0o444)
        Path(folder).chmod(0o755)

        is_root = os.geteuid() == 0
        if is_root:  # whom no mode keeps from writing
            os.seteuid(65534)
        try:
            with pytest.raises(StoreUnavailableError, match="read-only"):
                SQLiteStore(str(path))
        finally:
            if is_root:
                os.seteuid(0)


def test_a_folder_that_is_not_there_is_said_so(tmp_path: Path) -> None:
    with pytest.raises(StoreUnavailableError, match="No such file or directory"):
        SQLiteStore(str(tmp_path / "nowhere" / "plants.db"))
    with pytest.raises(StoreUnavailableError, match="not a regular file"):
        SQLiteStore(str(tmp_path))


@pytest.mark.parametrize("after", [None, 5])
@pytest.mark.parametrize("tag", [None, "Abies"])
@pytest.mark.parametrize("query", [page_query, sizes_query])
def test_no_listing_scans(
    path: Path,
    query: Callable[[int | None, str | None], str],
    after: int | None,
    tag: str | None,
) -> None:
    index = "INTEGER PRIMARY KEY (rowid>?)"
    if tag is not None:
        index = "INDEX plants_by_tag (tag=? AND rowid>?)"
    with contextlib.closing(SQLiteStore(str(path))) as store:
        explain = f"EXPLAIN QUERY PLAN {query(after, tag)}"
        bindings = {"after": after, "tag": tag, "limit": 100}

        steps = [row[3] for row in store._reads.execute(explain, bindings)]  # noqa: SLF001

    assert f"SEARCH plants USING {index}" in steps
    assert "SCAN plants" not in steps
    assert "USE TEMP B-TREE FOR ORDER BY" not in steps, "found in order, not sorted"


def test_a_page_of_very_long_names_ends_early_and_the_next_goes_on(path: Path) -> None:
    half = PAGE_BYTES_MAX // 2
    plants = [NewPlant(id_, "×" * (half // 2)) for id_ in range(5)]
    plants += [NewPlant(5, "x" * 10 * half), NewPlant(6, "x"), NewPlant(7, "x")]
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes(plants)

        sizes, seen, page = [], [], Page([], is_last=False)
        while not page.is_last:
            after = page.plants[-1].id if page.plants else None
            page = store.list_plants(after=after, limit=1000, tag=None)
            sizes.append(sum(len(plant.name.encode()) for plant in page.plants))
            seen += page.plants

        assert seen == plants
        assert all(
            size <= PAGE_BYTES_MAX or size == 10 * half  # one plant alone, whatever its size
            for size in sizes
        )
        assert [plants for plants in store.scan_plants() if len(plants) > 3] == []


def test_reads_go_on_while_another_writes_and_see_it_once_it_is_committed(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([PLANT])
        other = apsw.Connection(str(path))
        other.execute("BEGIN IMMEDIATE; DELETE FROM plants")

        assert store.find_plants([1]) == {1: PLANT}
        assert store.list_plants(after=None, limit=1, tag="Abies").plants == [PLANT]
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


def make_file_of_first_schema(path: Path) -> None:
    first, *_ = migrations("sqlite")
    connection = apsw.Connection(str(path))
    connection.execute(first)
    connection.execute("INSERT INTO plants VALUES (1, 'a', 't'), (2, 'b', NULL)")
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()


def test_a_database_of_the_first_schema_is_brought_up_to_date_and_keeps_its_plants(
    path: Path,
) -> None:
    make_file_of_first_schema(path)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        assert store.list_plants(after=None, limit=9, tag="t").plants == [NewPlant(1, "a", "t")]
        assert store.check() == Condition(len(migrations("sqlite")), 2, 0, [])


def test_a_check_finds_what_does_not_belong_and_what_is_missing(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([PLANT])
        connection = apsw.Connection(str(path))
        connection.execute("DROP INDEX plants_by_tag; CREATE TABLE songs (title TEXT)")
        connection.close()

        assert store.check().problems == [
            "plants_by_tag is not as the schema has it",
            "songs is not as the schema has it",
        ]


def test_a_check_finds_damage(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(id_, "x" * 100, f"{id_}") for id_ in range(1000)])
        root = store._reads.execute(  # noqa: SLF001
            "SELECT rootpage FROM sqlite_schema WHERE name = 'plants_by_tag'"
        ).get
    with path.open("r+b") as file:  # the root of the index, seemingly empty
        file.seek((root - 1) * 4096)
        file.write(bytes([10, 0, 0, 0, 0, 16, 0, 0]))

    with contextlib.closing(SQLiteStore(str(path))) as store:
        found = store.check()

    assert found.plants == 1000
    assert any("plants_by_tag" in problem for problem in found.problems)


def test_what_is_no_utf_8_is_found_by_a_check_and_hides_no_other_plant(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(1, "a"), NewPlant(3, "c")])
        other = apsw.Connection(str(path))  # as a shell that imports Latin-1 would
        other.execute("INSERT INTO plants VALUES (2, CAST(x'66FF' AS TEXT), NULL)")
        other.close()

        assert any("plant 2" in problem for problem in store.check().problems)
        shown = [NewPlant(1, "a"), NewPlant(2, "f\ufffd"), NewPlant(3, "c")]
        assert store.list_plants(after=None, limit=9, tag=None).plants == shown
        assert store.find_plants([2]) == {2: shown[1]}
        assert store.apply_changes([Replacement(2, Plant("b"))]) == [Outcome.REPLACED]
        assert store.check().problems == []


def test_without_leave_to_change_it_an_older_schema_stays_as_it_is(path: Path) -> None:
    make_file_of_first_schema(path)

    with contextlib.closing(SQLiteStore(str(path), SchemaPolicy.ACCEPT)) as store:
        assert store.check() == Condition(1, 2, 0, [])
        assert store.list_plants(after=None, limit=9, tag="t").plants == [NewPlant(1, "a", "t")]
        assert [len(plants) for plants in store.scan_plants()] == [2]
        copy = path.with_name("copy.db")
        assert store.back_up(str(copy), lambda _done, _total: None).schema == 1

    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == 1
    connection.close()


def test_a_backup_is_as_of_one_moment_whatever_is_written_meanwhile(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("plantstore.storage.sqlite.maintenance.STEP_PAGES", 1)
    copy = path.with_name("copy.db")
    steps: list[int] = []
    with (
        contextlib.closing(SQLiteStore(str(path))) as store,
        contextlib.closing(SQLiteStore(str(path))) as another,
    ):
        before = [NewPlant(id_, "x" * 1000) for id_ in range(100)]
        store.apply_changes(before)

        def write(done: int, _total: int) -> None:
            assert not steps or done > steps[-1], "it began again"
            steps.append(done)
            another.apply_changes([NewPlant(1000 + done, "y" * 1000), Deletion(done)])

        store.back_up(str(copy), write)

    assert len(steps) > 20
    with contextlib.closing(SQLiteStore(str(copy))) as copied:
        assert [plant for plants in copied.scan_plants() for plant in plants] == before


def test_a_store_knows_the_files_that_it_lives_in(path: Path) -> None:
    link = path.with_name("link.db")
    link.symlink_to(path)
    with contextlib.closing(SQLiteStore(str(path))) as store:
        for name in ("plants.db", "plants.db-wal", "plants.db-shm", "link.db"):
            assert store.occupies(path.with_name(name))
        for name in ("other.db", "plants.db-journal", "."):
            assert not store.occupies(path.with_name(name) if name != "." else path.parent)


def test_a_file_that_is_not_there_or_empty_is_not_made_when_not_asked_for(path: Path) -> None:
    url = f"sqlite:///{path}"
    with pytest.raises(StoreUnavailableError, match="No such file"):
        open_store(url, SchemaPolicy.ACCEPT)
    assert not path.exists()

    path.touch()
    with pytest.raises(StoreUnavailableError, match="empty"):
        open_store(url, SchemaPolicy.ACCEPT)
    assert path.stat().st_size == 0


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
