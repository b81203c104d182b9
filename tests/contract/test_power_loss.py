"""The data of a SQLite store after a power loss, and on a full or broken disk.

The simulation has power losses and faults during all changes.
"""

import contextlib
import itertools
import random
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Outcome
from plantstore.errors import NothingDoneError, OperationError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.file import PAGE_BYTES
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.disk import (
    ALL_LOST,
    CrashStates,
    Disk,
    Fault,
    Kind,
    Synced,
    Written,
    after_cuts,
    steps_to,
)
from support.following import everything
from support.other_programs import make_older

CUTS = 15


def test_after_a_power_loss_during_the_first_start_the_next_start_completes_it(
    path: Path, tmp_path: Path
) -> None:
    with Disk(path, 0) as disk, contextlib.closing(SQLiteStore(str(path))):
        pass

    for store in after_cuts(disk, tmp_path, CUTS):
        assert store.apply_changes([NewPlant(1, "a")]) == [Outcome.STORED]
        assert store.check().problems == []


def test_after_a_power_loss_during_a_migration_the_next_start_completes_it(
    path: Path, tmp_path: Path
) -> None:
    url = f"sqlite:///{path}"
    plants = make_older(url, 2_500)  # several transactions
    history = steps_to({"": path.read_bytes()})
    with Disk(path, 0, history) as disk:
        SQLiteStore(str(path)).close()

    for store in after_cuts(disk, tmp_path, CUTS // 2, first=len(history)):
        assert everything(store) == plants
        assert store.check().problems == []


def test_what_an_ended_process_left_in_the_log_is_synced_before_it_is_shown(
    path: Path, tmp_path: Path
) -> None:
    """SQLite accepts a transaction in the log though its sync failed, or never began."""
    with Disk(path, 0) as disk, contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(1, "a")])
        steps = [*disk.steps]
    while steps.pop() != Synced("-wal"):
        pass

    with (
        Disk(tmp_path / "again.db", 0, steps) as disk,
        contextlib.closing(SQLiteStore(str(disk.path))) as store,
    ):
        shown = everything(store)
        left = CrashStates(disk.steps).left(random.Random(0), ALL_LOST)
    with (
        Disk(tmp_path / "left.db", 0, steps_to(left)) as disk,
        contextlib.closing(SQLiteStore(str(disk.path))) as store,
    ):
        assert everything(store) == shown == [NewPlant(1, "a")]


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        (Written, apsw.SQLITE_FULL, "The backup cannot be written: the disk of {} is full; free"),
        (Written, apsw.SQLITE_IOERR_WRITE, "The backup cannot be written to {}: disk I/O error"),
        (Synced, apsw.SQLITE_IOERR_FSYNC, "The backup cannot be written to {}: disk I/O error"),
    ],
)
def test_a_backup_that_cannot_be_written_reports_the_reason_and_the_folder(
    tmp_path: Path, kind: Kind, error: int, said: str
) -> None:
    plants = [NewPlant(id_, "x" * 10_000) for id_ in range(20)]
    (tmp_path / "copies").mkdir()
    with contextlib.closing(SQLiteStore(str(tmp_path / "plants.db"))) as store:
        store.apply_changes(plants)

        with Disk(tmp_path / "copies" / "copy.db", 0) as disk:
            disk.break_down(Fault(kind, 0, error, lasts=True))
            with pytest.raises(OperationError) as caught:
                store.back_up(str(disk.path), lambda _done, _total: None)

        assert caught.value.message.startswith(said.format(tmp_path / "copies"))
        assert store.apply_changes([NewPlant(99, "a")]) == [Outcome.STORED]


def test_after_a_failed_checkpoint_nothing_is_changed_so_that_the_log_keeps_all_plants(
    path: Path, tmp_path: Path
) -> None:
    """A checkpoint beside a long read copies a part, which the next sync makes durable.

    If that sync fails, no later one makes the part durable.
    """
    seconds = itertools.count()
    with (
        Disk(path, 0) as disk,
        contextlib.closing(
            SQLiteStore(str(path), monotonic=lambda: next(seconds), log_bytes_max=100 * PAGE_BYTES)
        ) as store,
    ):
        store.apply_changes([NewPlant(id_, "x" * 900) for id_ in range(60)])
        with contextlib.closing(store.scan_plants()) as scan:
            next(scan)
            store.apply_changes([NewPlant(id_, "x" * 900) for id_ in range(60, 120)])
        disk.break_down(Fault(Synced, 2, apsw.SQLITE_IOERR_FSYNC, lasts=False))
        assert store.apply_changes([NewPlant(120, "a")]) == [Outcome.STORED]
        assert disk.refused == 1
        disk.heal()

        for refused in (store.check_writable, lambda: store.apply_changes([NewPlant(121, "b")])):
            with pytest.raises(NothingDoneError, match="start again"):
                refused()
        assert len(store.find_plants([*range(200)])) == 121
    left = CrashStates(disk.steps).left(random.Random(0), ALL_LOST)
    with (
        Disk(tmp_path / "left.db", 0, steps_to(left)) as disk,
        contextlib.closing(SQLiteStore(str(disk.path))) as store,
    ):
        assert store.check().problems == []
        assert len(store.find_plants([*range(200)])) == 121
        assert store.apply_changes([NewPlant(121, "b")]) == [Outcome.STORED]
