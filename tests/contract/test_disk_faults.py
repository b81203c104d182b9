"""A SQLite store while its disk is full or broken, and its data afterwards."""

import contextlib
import functools
import random
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Outcome
from plantstore.errors import OperationError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.store import SQLiteStore
from support.broken_disks import REFUSALS, Kind, change_and_heal, count_faults, open_and_heal
from support.crash_states import (
    ALL_LOST,
    ALL_THERE,
    CrashStates,
    FolderSynced,
    Made,
    Resized,
    Step,
    Synced,
    SyncFailed,
    Written,
)
from support.disk import Disk, Fault

of_each_kind = pytest.mark.parametrize(("kind", "error"), REFUSALS.values(), ids=REFUSALS)
once_and_lasting = pytest.mark.parametrize("lasts", [False, True], ids=["once", "until healed"])

# A new file is written some hundred times. tests/long injects a fault at each step.
EVERY = {Written: 6, Synced: 1, Resized: 1}


@of_each_kind
@once_and_lasting
def test_reads_continue_while_changes_fail_and_changes_succeed_on_the_healed_disk(
    tmp_path: Path, kind: Kind, error: int, *, lasts: bool
) -> None:
    meets = functools.partial(change_and_heal, tmp_path)

    assert count_faults(meets, Fault(kind, 0, error, lasts), EVERY[kind]) >= 3


@of_each_kind
@once_and_lasting
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "crashed"])
def test_a_file_on_a_broken_disk_is_unavailable_and_opens_on_the_healed_disk(
    tmp_path: Path, kind: Kind, error: int, *, lasts: bool, is_new: bool
) -> None:
    meets = functools.partial(open_and_heal, tmp_path, is_new=is_new)

    count = count_faults(meets, Fault(kind, 0, error, lasts), EVERY[kind])

    assert count > 0 or kind is Resized


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


def test_data_of_a_failed_sync_stays_in_doubt_until_it_is_written_again() -> None:
    steps: list[Step] = [Made(""), Written("", 0, b"old"), Synced(""), FolderSynced()]
    steps += [Written("", 0, b"new"), SyncFailed(""), Synced("")]
    states = CrashStates(steps)

    assert states.left(random.Random(0), ALL_LOST) == {"": b"old"}
    assert states.left(random.Random(0), ALL_THERE) == {"": b"new"}
    states.follow([Written("", 0, b"new"), Synced("")])
    assert states.left(random.Random(0), ALL_LOST) == {"": b"new"}
