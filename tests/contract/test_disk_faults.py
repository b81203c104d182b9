"""A SQLite store while its disk is full or broken, and its data afterwards."""

import contextlib
import itertools
import random
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Outcome
from plantstore.errors import OperationError, StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.store import SQLiteStore
from support.disk import Disk, Fault
from support.ledger import Ledger, acts, live, live_with_a_fault
from support.platter import (
    ALL_LOST,
    ALL_THERE,
    FolderSynced,
    Made,
    Platter,
    Resized,
    Step,
    Synced,
    SyncFailed,
    Written,
)
from support.power_loss import Survey, some_cuts

Kind = type[Written | Resized | Synced]

REFUSALS = {
    "no room": (Written, apsw.SQLITE_FULL),
    "no writes": (Written, apsw.SQLITE_IOERR_WRITE),
    "no room at a sync": (Synced, apsw.SQLITE_FULL),
    "no syncs": (Synced, apsw.SQLITE_IOERR_FSYNC),
    "no other size": (Resized, apsw.SQLITE_IOERR_TRUNCATE),
}
of_each_kind = pytest.mark.parametrize(("kind", "error"), REFUSALS.values(), ids=REFUSALS)
once_and_lasting = pytest.mark.parametrize("lasts", [False, True], ids=["once", "until healed"])


def count_faults(is_met: Callable[[int], bool]) -> int:
    """Inject a fault at one step after the other; return how many of them were reached."""
    return next(number for number in itertools.count() if not is_met(number))


@of_each_kind
@once_and_lasting
def test_reads_continue_while_changes_fail_and_changes_succeed_on_the_healed_disk(
    tmp_path: Path, kind: Kind, error: int, *, lasts: bool
) -> None:
    def is_met(number: int) -> bool:
        chance = random.Random(number)
        disk = Disk(tmp_path / f"{number}.db", number)
        ledger = Ledger(disk)

        before = live_with_a_fault(ledger, disk, chance, Fault(kind, number, error, lasts))

        survey = Survey(tmp_path, chance)
        survey.cut(disk, ledger, some_cuts(chance, before, len(disk.steps), 1))
        assert ledger.problems == []
        assert survey.problems == []
        return disk.refused > 0

    assert count_faults(is_met) >= 3


def crashed(path: Path) -> tuple[list[Step], Ledger]:
    """Return the disk steps and the ledger of a process that crashed between two changes."""
    with Disk(path, 0) as disk:
        ledger = Ledger(disk)
        live(ledger, disk, random.Random(0), 30)
    logs = [after for after, step in enumerate(disk.steps, 1) if step == Synced("-wal")]
    return disk.steps[: logs[-10]], ledger


@of_each_kind
@once_and_lasting
@pytest.mark.parametrize("is_new", [True, False], ids=["new", "crashed"])
def test_a_file_on_a_broken_disk_is_unavailable_and_opens_on_the_healed_disk(
    tmp_path: Path, kind: Kind, error: int, *, lasts: bool, is_new: bool
) -> None:
    history, before = crashed(tmp_path / "crashed.db")

    def is_met(number: int) -> bool:
        chance = random.Random(number)
        disk = Disk(tmp_path / f"{number}.db", number, [] if is_new else history)
        ledger = Ledger(disk) if is_new else Ledger(disk, before.at(len(history)))
        began = len(disk.steps)
        disk.break_down(Fault(kind, number, error, lasts))
        with disk:
            try:
                store = SQLiteStore(str(disk.path))
            except StoreUnavailableError:
                disk.heal()
                store = SQLiteStore(str(disk.path))
            disk.heal()

            with contextlib.closing(store):
                assert ledger.read(store) == []
                assert all(ledger.do(store, act) for act in acts(chance, 3))
                assert store.check().problems == []

        survey = Survey(tmp_path, chance)
        survey.cut(disk, ledger, some_cuts(chance, began, len(disk.steps), 2))
        assert survey.problems == []
        return disk.refused > 0

    count = count_faults(is_met)

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
    platter = Platter(steps)

    assert platter.left(random.Random(0), ALL_LOST) == {"": b"old"}
    assert platter.left(random.Random(0), ALL_THERE) == {"": b"new"}
    platter.follow([Written("", 0, b"new"), Synced("")])
    assert platter.left(random.Random(0), ALL_LOST) == {"": b"new"}
