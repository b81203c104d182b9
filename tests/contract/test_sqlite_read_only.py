"""A database that is opened read-only, while other processes may write to it."""

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.read_only import ReadOnlySQLite
from plantstore.storage.sqlite.store import SQLiteStore

PLANTS = [NewPlant(id_, "x" * 100) for id_ in range(2500)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "plants.db"
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes(PLANTS)
    return path


def names(path: Path) -> list[str]:
    return sorted(file.name for file in path.parent.iterdir())


@pytest.fixture
def database(path: Path) -> Iterator[ReadOnlySQLite]:
    with contextlib.closing(ReadOnlySQLite(str(path))) as database:
        yield database


def test_no_file_is_created_beside_the_database(path: Path, database: ReadOnlySQLite) -> None:
    scanned = [plant for plants in database.scan_plants() for plant in plants]

    assert scanned == PLANTS
    assert database.count_plants() == 2500
    assert database.check() == (5, 2500, 0, [])
    assert names(path) == ["plants.db"]


def test_a_scan_fails_if_another_process_changes_the_file_during_it(
    path: Path, database: ReadOnlySQLite
) -> None:
    scan = database.scan_plants()
    next(scan)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(9999, "new")])

    with pytest.raises(StoreUnavailableError, match="was changed while it was read; run the"):
        list(scan)


def test_a_scan_during_writes_returns_one_snapshot(path: Path, database: ReadOnlySQLite) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(3000, "in the log")])
        scan = database.scan_plants()
        seen = list(next(scan))

        store.apply_changes([NewPlant(4000, "later")])
        seen += [plant for plants in scan for plant in plants]

    assert seen == [*PLANTS, NewPlant(3000, "in the log")]


def test_an_unreadable_database_is_refused_with_the_reason() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "plants.db"
        SQLiteStore(str(path)).close()
        path.chmod(0o200)
        Path(folder).chmod(0o755)

        is_root = os.geteuid() == 0
        if is_root:  # file modes do not restrict root
            os.seteuid(65534)
        try:
            with pytest.raises(StoreUnavailableError, match="cannot be opened: Permission denied"):
                ReadOnlySQLite(str(path))
        finally:
            if is_root:
                os.seteuid(0)
