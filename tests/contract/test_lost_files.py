"""A file of SQLite that is taken away from the store that has it open."""

import contextlib
import os
import random
import threading
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.store import SQLiteStore
from plantstore.storage.sqlite.watch import FRESH_SECONDS
from plantstore.store import Deletion, Outcome
from plantstore.tokens import SCOPES, TokenRecord, digest

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plants.db"


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
@pytest.mark.parametrize("fate", ["deleted", "moved", "replaced"])
def test_what_goes_to_a_file_that_nobody_finds_any_more_is_not_acknowledged(
    path: Path, tmp_path: Path, suffix: str, fate: str
) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])
    file = Path(f"{path}{suffix}")
    kept = tmp_path / "kept"
    if fate == "deleted":
        file.unlink()
    else:
        file.rename(kept)
    if fate == "replaced":
        file.write_bytes(kept.read_bytes())

    for act in (store.probe, lambda: store.apply_changes([NewPlant(2, "b")])):
        with pytest.raises(StoreUnavailableError, match="moved, replaced or deleted"):
            act()
    assert store.find_plants([PLANT.id]) == {PLANT.id: PLANT}
    if fate != "deleted":
        kept.rename(file)
        store.probe()
        assert store.apply_changes([NewPlant(3, "c")]) == [Outcome.STORED]
    store.close()


def unlink(file: Path) -> None:
    file.unlink()


def truncate(file: Path) -> None:
    os.truncate(file, 0)


def overwrite(file: Path) -> None:
    with file.open("r+b") as opened:
        opened.write(bytes(64))


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [
        ("", unlink),
        ("-wal", unlink),
        ("-wal", truncate),
        ("-wal", overwrite),
        ("-shm", unlink),
    ],
)
def test_what_befalls_a_file_during_a_commit_keeps_it_from_being_acknowledged(
    path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    now = 0.0
    store = SQLiteStore(str(path), monotonic=lambda: now)
    store.apply_changes([PLANT])
    # The folder was not changed lately, so that the look after the commit is only a glance.
    os.utime(path.parent, (0, 0))
    now += FRESH_SECONDS * 2

    def commit_hook() -> bool:  # after the look before the transaction
        damage(Path(f"{path}{suffix}"))
        return False

    store._writes.set_commit_hook(commit_hook)  # noqa: SLF001
    with pytest.raises(StoreUnavailableError, match="while it was in use"):
        store.apply_changes([NewPlant(2, "b")])
    store.close()


@pytest.mark.parametrize(
    ("suffix", "damage"),
    [("", truncate), ("-wal", truncate), ("-wal", overwrite), ("-shm", truncate)],
)
def test_a_damaged_file_is_neither_written_nor_checkpointed(
    path: Path, suffix: str, damage: Callable[[Path], None]
) -> None:
    now = 0.0
    store = SQLiteStore(str(path), monotonic=lambda: now)
    store.apply_changes([PLANT])
    now += FRESH_SECONDS * 2
    damage(Path(f"{path}{suffix}"))
    before = {file: file.read_bytes() for file in path.parent.iterdir()}

    for act in (store.probe, lambda: store.apply_changes([NewPlant(2, "b")])):
        with pytest.raises(StoreUnavailableError, match="truncated or overwritten"):
            act()
    store.close()

    assert {file: file.read_bytes() for file in path.parent.iterdir()} == before


def test_a_token_is_not_made_in_files_that_nobody_finds_any_more(path: Path) -> None:
    store = SQLiteStore(str(path))
    Path(f"{path}-shm").unlink()

    with pytest.raises(StoreUnavailableError, match="moved, replaced or deleted"):
        store.add_token(TokenRecord("a", digest("a"), frozenset(SCOPES), 0))

    assert store.list_tokens() == []
    store.close()


def test_a_lost_log_is_saved_to_the_database_when_it_is_noticed(path: Path, tmp_path: Path) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])
    Path(f"{path}-wal").unlink()

    with pytest.raises(StoreUnavailableError):
        store.probe()
    copy = tmp_path / "copy.db"
    copy.write_bytes(path.read_bytes())  # as a process that is killed leaves it

    with contextlib.closing(SQLiteStore(str(copy))) as copied:
        assert copied.find_plants([PLANT.id]) == {PLANT.id: PLANT}
    store.close()


def test_no_snapshot_is_taken_of_lost_files_and_no_file_is_made(path: Path) -> None:
    store = SQLiteStore(str(path))
    Path(f"{path}-wal").unlink()

    with pytest.raises(StoreUnavailableError, match="-wal"):
        store.count_plants()

    assert not Path(f"{path}-wal").exists()
    store.close()


def test_a_store_behind_a_symbolic_link_knows_its_files(path: Path, tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    path.symlink_to(tmp_path / "real" / "plants.db")
    store = SQLiteStore(str(path))

    assert store.apply_changes([PLANT]) == [Outcome.STORED]
    Path(tmp_path / "real" / "plants.db-shm").unlink()
    with pytest.raises(StoreUnavailableError, match="-shm"):
        store.apply_changes([NewPlant(2, "b")])
    store.close()


def test_a_log_that_another_cuts_back_and_a_vacuum_are_no_damage(path: Path) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([NewPlant(id_, "x" * 1000) for id_ in range(2000)])
    store._writes.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)  # noqa: SLF001
    store.probe()
    size = path.stat().st_size
    store.apply_changes([Deletion(id_) for id_ in range(1, 2000)])
    is_over = threading.Event()
    other = apsw.Connection(str(path))
    other.set_busy_timeout(10_000)
    other.execute("VACUUM")
    other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
    assert path.stat().st_size < size

    def checkpoint() -> None:
        while not is_over.is_set():
            with contextlib.suppress(apsw.BusyError):
                other.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)

    thread = threading.Thread(target=checkpoint)
    thread.start()
    try:
        outcomes = [store.apply_changes([NewPlant(id_, "y")]) for id_ in range(5000, 5300)]
    finally:
        is_over.set()
        thread.join()

    assert outcomes == [[Outcome.STORED]] * 300
    store.probe()
    other.close()
    store.close()


def test_a_file_whose_content_is_replaced_is_unavailable_and_no_bug(path: Path) -> None:
    before = SQLiteStore(str(path))
    before.apply_changes([NewPlant(id_, "x" * 1000) for id_ in range(2000)])
    before.close()  # which copies all of it from the log to the file
    store = SQLiteStore(str(path))
    chance = random.Random(0)

    for _ in range(20):
        path.write_bytes(chance.randbytes(path.stat().st_size))
        for act in (
            lambda: store.apply_changes([NewPlant(chance.randrange(3000), "y")]),
            lambda: store.list_plants(after=chance.randrange(2000), limit=100, tag=None),
            lambda: store.find_plants([chance.randrange(2000)]),
        ):
            with pytest.raises(StoreUnavailableError, match="malformed"):
                act()
    store.close()
