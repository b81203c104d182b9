"""Stores on disks that fail at one step, and are healed afterwards."""

import contextlib
import functools
import itertools
import random
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import apsw

from plantstore.errors import StoreUnavailableError
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.crash_states import Resized, Step, Synced, Written
from support.disk import Disk, Fault
from support.ledger import NOTHING, Content, Ledger, acts, live, live_with_a_fault
from support.power_loss import Survey, some_cuts

Kind: TypeAlias = type[Written | Resized | Synced]

REFUSALS = {
    "no room": (Written, apsw.SQLITE_FULL),
    "no writes": (Written, apsw.SQLITE_IOERR_WRITE),
    "no room at a sync": (Synced, apsw.SQLITE_FULL),
    "no syncs": (Synced, apsw.SQLITE_IOERR_FSYNC),
    "no other size": (Resized, apsw.SQLITE_IOERR_TRUNCATE),
}


def count_faults(meets: Callable[[Fault], bool], fault: Fault, every: int) -> int:
    """Inject a fault at one step of its kind after the other; return how many were reached.

    Args:
        meets: uses a store on a disk with this fault; returns whether the fault was reached.
        fault: its number is replaced.
        every: 1 to inject it at each step, 2 at each second one, and so on.

    """
    numbers = itertools.count(0, every)
    return next(at for at, number in enumerate(numbers) if not meets(fault._replace(number=number)))


def change_and_heal(folder: Path, fault: Fault) -> bool:
    """Change a store while its disk fails, and after it was healed; return whether it failed."""
    chance = random.Random(0)  # the same history for each fault
    disk = Disk(folder / f"{fault.number}.db", 0)
    ledger = Ledger(disk)

    before = live_with_a_fault(ledger, disk, chance, fault)

    survey = Survey(folder)
    survey.cut(disk, ledger, some_cuts(chance, before, len(disk.steps), 1))
    assert ledger.problems == []
    assert survey.problems == []
    return disk.refused > 0


def open_and_heal(folder: Path, fault: Fault, *, is_new: bool) -> bool:
    """Open a new file, or one after a crash, on a disk that fails; return whether it failed."""
    history, possible = ([], [NOTHING]) if is_new else _crashed(folder)
    chance = random.Random(0)
    disk = Disk(folder / f"{fault.number}.db", 0, history)
    ledger = Ledger(disk, possible)
    disk.break_down(fault)
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

    survey = Survey(folder)
    survey.cut(disk, ledger, some_cuts(chance, len(history), len(disk.steps), 2))
    assert survey.problems == []
    return disk.refused > 0


@functools.cache
def _crashed(folder: Path) -> tuple[list[Step], list[Content]]:
    """Return the disk steps of a process that crashed, and the possible contents of its store."""
    with Disk(folder / "crashed.db", 0) as disk:
        ledger = Ledger(disk)
        live(ledger, disk, random.Random(0), 30)
    logs = [after for after, step in enumerate(disk.steps, 1) if step == Synced("-wal")]
    return disk.steps[: logs[-10]], ledger.at(logs[-10])
