"""SQLite files that are moved, replaced, deleted or damaged while a store has them open."""

import contextlib
import itertools
import os
import random
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Deletion, Outcome
from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.guard import FRESH_SECONDS
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.tokens import SCOPES, TokenRecord, digest
from support.stores import READ_METHODS

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


def opened(path: Path) -> SQLiteStore:
    """Open a store whose clock runs so fast that each check before a change is a full one."""
    return SQLiteStore(str(path), monotonic=itertools.count().__next__)


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    """Yield such a store, with one plant."""
    with contextlib.closing(opened(path)) as store:
        store.apply_changes([PLANT])
        yield store


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("fate", ["deleted", "moved", "replaced"])
def test_a_change_to_a_moved_replaced_or_deleted_file_is_not_acknowledged(
    path: Path, store: SQLiteStore, tmp_path: Path, suffix: str, fate: str
) -> None:
    file, kept = Path(f"{path}{suffix}"), tmp_path / "kept"
    if fate == "deleted":
        file.unlink()
    else:
        file.rename(kept)
    if fate == "replaced":
        file.write_bytes(kept.read_bytes())

    for act in (
        store.probe,
        lambda: store.apply_changes([NewPlant(2, "b")]),
        lambda: store.add_token(TokenRecord("a", digest("a"), frozenset(SCOPES), 0)),
    ):
        with pytest.raises(StoreUnavailableError, match="moved, replaced or deleted"):
            act()
    assert store.find_plants([PLANT.id]) == {PLANT.id: PLANT}
    assert store.list_tokens() == []
    if fate != "deleted":
        kept.rename(file)
        store.probe()
        assert store.apply_changes([NewPlant(3, "c")]) == [Outcome.STORED]


def truncate(file: Path) -> None:
    os.truncate(file, 0)


def halve(file: Path) -> None:
    os.truncate(file, file.stat().st_size // 2)


def overwrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(bytes(64))


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        ("", Path.unlink),
        ("-wal", Path.unlink),
        ("-wal", truncate),
        ("-wal", overwrite),
        ("-shm", Path.unlink),
    ],
)
def test_a_commit_is_not_acknowledged_if_a_file_is_deleted_or_damaged_during_it(
    path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    now = 0.0
    store = SQLiteStore(str(path), monotonic=lambda: now)
    store.apply_changes([PLANT])
    # The folder has not changed recently, so the check after the commit is only the quick one.
    os.utime(path.parent, (0, 0))
    now += FRESH_SECONDS * 2

    def commit_hook() -> bool:  # runs after the check that precedes the transaction
        damage(Path(f"{path}{suffix}"))
        return False

    store._writes.set_commit_hook(commit_hook)  # noqa: SLF001
    with pytest.raises(StoreUnavailableError, match="while it was in use"):
        store.apply_changes([NewPlant(2, "b")])
    store.close()


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [("", truncate), ("", halve), ("-wal", truncate), ("-wal", overwrite), ("-shm", truncate)],
)
def test_a_damaged_file_is_neither_written_nor_checkpointed(
    path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    store = opened(path)
    store.apply_changes([PLANT])
    os.utime(path.parent, (0, 0))  # damage in place does not change the folder
    store.probe()
    damage(Path(f"{path}{suffix}"))
    # Reads of SQLite write to the index of the log, too.
    files = [path, Path(f"{path}-wal")]
    before = [file.read_bytes() for file in files]

    for act in (store.probe, lambda: store.apply_changes([NewPlant(2, "b")])):
        with pytest.raises(StoreUnavailableError, match="truncated or overwritten"):
            act()
    store.close()

    assert [file.read_bytes() for file in files] == before


@pytest.mark.parametrize("lost", [["-wal"], ["-shm"], ["-wal", "-shm"]], ids="+".join)
def test_a_database_in_use_is_not_opened_with_new_files_after_its_own_were_lost(
    path: Path, lost: list[str]
) -> None:
    store = opened(path)
    store.apply_changes([PLANT])
    for suffix in lost:
        Path(f"{path}{suffix}").unlink()
    before = sorted(path.parent.iterdir())

    with pytest.raises(StoreUnavailableError, match="in use by another process"):
        opened(path)

    assert sorted(path.parent.iterdir()) == before
    store.close()
    with contextlib.closing(opened(path)) as later:
        assert later.find_plants([PLANT.id]) == {PLANT.id: PLANT}


def test_a_database_whose_log_is_deleted_while_it_is_opened_is_refused(path: Path) -> None:
    connections: list[apsw.Connection] = []

    def hook(connection: apsw.Connection) -> None:
        connections.append(connection)
        if len(connections) == 3:
            Path(f"{path}-wal").unlink()

    apsw.connection_hooks.append(hook)
    try:
        with pytest.raises(StoreUnavailableError, match="-wal file was moved, replaced or deleted"):
            opened(path)
    finally:
        apsw.connection_hooks.remove(hook)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_without_its_database_is_not_given_to_a_new_database(path: Path, suffix: str) -> None:
    store = opened(path)
    path.unlink()
    store.close()
    for other in {"-wal", "-shm"} - {suffix}:
        Path(f"{path}{other}").unlink()

    with pytest.raises(StoreUnavailableError, match="put the database back"):
        opened(path)

    assert [file.name for file in path.parent.iterdir()] == [f"plants.db{suffix}"]


@pytest.mark.parametrize("is_recreated", [False, True])
def test_a_deleted_log_is_copied_to_the_database_when_the_loss_is_noticed(
    path: Path, store: SQLiteStore, tmp_path: Path, *, is_recreated: bool
) -> None:
    log = Path(f"{path}-wal")
    log.unlink()
    if is_recreated:
        log.touch()  # as SQLite does in a process that starts

    with pytest.raises(StoreUnavailableError, match="-wal"):
        store.count_plants()
    assert log.exists() == is_recreated
    with pytest.raises(StoreUnavailableError):
        store.probe()
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())  # the state that a killed process would leave

    with contextlib.closing(SQLiteStore(str(copy))) as copied:
        assert copied.find_plants([PLANT.id]) == {PLANT.id: PLANT}


def test_a_store_behind_a_symbolic_link_notices_the_loss_of_its_files(
    path: Path, tmp_path: Path
) -> None:
    (tmp_path / "real").mkdir()
    path.symlink_to(tmp_path / "real" / "plants.db")
    store = opened(path)

    assert store.apply_changes([PLANT]) == [Outcome.STORED]
    Path(tmp_path / "real" / "plants.db-shm").unlink()
    with pytest.raises(StoreUnavailableError, match="-shm"):
        store.apply_changes([NewPlant(2, "b")])
    store.close()


def test_truncation_of_the_log_and_a_vacuum_by_another_connection_are_no_damage(
    path: Path, store: SQLiteStore
) -> None:
    store.apply_changes([NewPlant(id_, "x" * 1000) for id_ in range(2, 2000)])
    store._writes.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)  # noqa: SLF001
    store.probe()
    size = path.stat().st_size
    store.apply_changes([Deletion(id_) for id_ in range(1, 2000)])
    is_over = threading.Event()

    def checkpoint() -> None:
        while not is_over.is_set():
            with contextlib.suppress(apsw.BusyError):
                other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    with contextlib.closing(apsw.Connection(str(path))) as other, ThreadPoolExecutor(1) as pool:
        other.set_busy_timeout(10_000)
        other.execute("VACUUM")
        other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        assert path.stat().st_size < size
        checkpoints = pool.submit(checkpoint)
        try:
            outcomes = [store.apply_changes([NewPlant(id_, "y")]) for id_ in range(5000, 5200)]
        finally:
            is_over.set()
        checkpoints.result(60)

    assert outcomes == [[Outcome.STORED]] * 200
    store.probe()


def test_a_file_with_overwritten_content_is_unavailable_and_no_internal_error(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as before:
        before.keep_changes(7)
        before.apply_changes([NewPlant(id_, "x" * 1000) for id_ in range(500)])
    chance = random.Random(0)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        for _ in range(20):
            path.write_bytes(chance.randbytes(path.stat().st_size))
            with pytest.raises(StoreUnavailableError, match="malformed"):
                store.apply_changes([NewPlant(chance.randrange(1000), "y")])
            for read in READ_METHODS.values():
                with pytest.raises(StoreUnavailableError):
                    read(store)
