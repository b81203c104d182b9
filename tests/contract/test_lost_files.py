"""SQLite files that are moved, replaced, deleted or overwritten while a store has them open."""

import contextlib
import random
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Outcome
from plantstore.errors import NothingDoneError, StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.tokens import SCOPES, TokenRecord, digest
from support.stores import READ_METHODS

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def store(path: Path) -> Iterator[SQLiteStore]:
    """Yield a store with one plant."""
    with contextlib.closing(SQLiteStore(str(path))) as store:
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
        store.check_readable,
        store.check_writable,
        lambda: store.apply_changes([NewPlant(2, "b")]),
        lambda: store.add_token(TokenRecord("a", digest("a"), frozenset(SCOPES), 0)),
    ):
        with pytest.raises(StoreUnavailableError, match="moved, replaced or deleted"):
            act()
    assert store.find_plants([PLANT.id]) == {PLANT.id: PLANT}
    assert store.list_tokens() == []
    if fate != "deleted":
        kept.rename(file)
        store.check_writable()
        assert store.apply_changes([NewPlant(3, "c")]) == [Outcome.STORED]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_commit_is_not_acknowledged_if_a_file_is_deleted_during_it(
    path: Path, store: SQLiteStore, suffix: str
) -> None:
    def commit_hook() -> bool:  # runs after the check that precedes the transaction
        Path(f"{path}{suffix}").unlink()
        return False

    store._writes.set_commit_hook(commit_hook)  # noqa: SLF001
    with pytest.raises(StoreUnavailableError, match="while it was in use") as caught:
        store.apply_changes([NewPlant(2, "b")])
    assert not isinstance(caught.value, NothingDoneError), "it may be made"
    store._writes.set_commit_hook(None)  # noqa: SLF001
    with pytest.raises(NothingDoneError):
        store.apply_changes([NewPlant(3, "c")])


@pytest.mark.parametrize("suffix", ["", "-wal"])
def test_after_a_loss_nothing_is_copied_to_the_files_at_the_paths(path: Path, suffix: str) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])
    file = Path(f"{path}{suffix}")
    content = file.read_bytes()
    file.unlink()
    file.write_bytes(content)
    files = [path, Path(f"{path}-wal")]
    before = [each.read_bytes() for each in files]

    with pytest.raises(StoreUnavailableError):
        store.check_writable()
    store.close()

    assert [each.read_bytes() for each in files] == before


@pytest.mark.parametrize("lost", [["-wal"], ["-shm"], ["-wal", "-shm"]], ids="+".join)
def test_a_database_in_use_is_not_opened_with_new_files_after_its_own_were_lost(
    path: Path, lost: list[str]
) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])
    for suffix in lost:
        Path(f"{path}{suffix}").unlink()
    before = sorted(path.parent.iterdir())

    with pytest.raises(StoreUnavailableError, match="in use by another process"):
        SQLiteStore(str(path))

    assert sorted(path.parent.iterdir()) == before
    store.close()


def test_a_database_whose_log_is_deleted_while_it_is_opened_is_refused(path: Path) -> None:
    connections: list[apsw.Connection] = []

    def hook(connection: apsw.Connection) -> None:
        connections.append(connection)
        if len(connections) == 3:
            Path(f"{path}-wal").unlink()

    apsw.connection_hooks.append(hook)
    try:
        with pytest.raises(StoreUnavailableError, match="-wal file was moved, replaced or deleted"):
            SQLiteStore(str(path))
    finally:
        apsw.connection_hooks.remove(hook)


@pytest.mark.parametrize("suffix", ["-wal", "-shm"])
def test_a_log_without_its_database_is_not_given_to_a_new_database(path: Path, suffix: str) -> None:
    store = SQLiteStore(str(path))
    path.unlink()
    store.close()
    for other in {"-wal", "-shm"} - {suffix}:
        Path(f"{path}{other}").unlink()

    with pytest.raises(StoreUnavailableError, match="put the database back"):
        SQLiteStore(str(path))

    assert [file.name for file in path.parent.iterdir()] == [f"plants.db{suffix}"]


def test_a_deleted_log_is_saved_by_a_copy_of_the_open_file(path: Path) -> None:
    store = SQLiteStore(str(path))
    store.apply_changes([PLANT])
    log = Path(f"{path}-wal")
    log.unlink()
    descriptors = Path("/proc/self/fd").iterdir()
    held = next(each for each in descriptors if each.resolve().name == f"{log.name} (deleted)")

    log.write_bytes(held.read_bytes())
    store.close()

    with contextlib.closing(SQLiteStore(str(path))) as later:
        assert later.find_plants([PLANT.id]) == {PLANT.id: PLANT}


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
