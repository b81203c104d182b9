"""Power cuts and faults of disks, and the stores on what they leave."""

import contextlib
import itertools
import random
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final, TypeAlias

import apsw

from plantstore.changes import Outcome
from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.file import PAGE_BYTES
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.crash_states import CrashStates, Resized, Synced, Written, steps_to
from support.disk import Disk, Fault

Kind: TypeAlias = type[Written | Resized | Synced]

REFUSALS: Final[dict[str, tuple[Kind, int]]] = {
    "no room": (Written, apsw.SQLITE_FULL),
    "no writes": (Written, apsw.SQLITE_IOERR_WRITE),
    "no room at a sync": (Synced, apsw.SQLITE_FULL),
    "no syncs": (Synced, apsw.SQLITE_IOERR_FSYNC),
    "no other size": (Resized, apsw.SQLITE_IOERR_TRUNCATE),
}

# What is stored while a disk fails, and after it is healed.
MEANWHILE: Final = [NewPlant(id_, "x" * (id_ * 7919 % 9000)) for id_ in range(12)]
AFTERWARDS: Final = [NewPlant(id_, "y") for id_ in range(12, 16)]


def plants_of(store: SQLiteStore) -> list[NewPlant]:
    return list(itertools.chain.from_iterable(store.scan_plants()))


def open_with_short_log(path: Path) -> SQLiteStore:
    """Open a store whose log is often checkpointed and restarted, and whose code never waits."""
    seconds = itertools.count()
    return SQLiteStore(str(path), monotonic=lambda: next(seconds), log_bytes_max=2 * PAGE_BYTES)


def after_cuts(
    disk: Disk, folder: Path, count: int, first: int = 0
) -> Iterator[tuple[int, SQLiteStore]]:
    """Cut the power so many times at random, and open the store that is left.

    Args:
        disk: has the steps.
        folder: for the files that are left.
        count: of the cuts.
        first: number of steps before the earliest cut.

    Yields:
        The number of steps before the cut, and the store.

    """
    chance = random.Random(0)
    states, done = CrashStates(), 0
    for after in sorted(chance.randrange(first, len(disk.steps) + 1) for _ in range(count)):
        states.follow(disk.steps[done:after])
        done = after
        left = steps_to(states.left(chance))
        with tempfile.TemporaryDirectory(dir=folder) as name:
            path = Path(name) / "plants.db"
            with Disk(path, 0, left), contextlib.closing(SQLiteStore(str(path))) as store:
                yield after, store


def count_faults(folder: Path, fault: Fault, every: int) -> int:
    """Inject a fault at one step of its kind after the other; return how many were reached.

    Args:
        folder: for the files of the stores.
        fault: its number is replaced.
        every: 1 to inject it at each step, 2 at each second one, and so on.

    """
    for reached in itertools.count():
        disk = Disk(folder / f"{reached}.db", 0)
        disk.break_down(fault._replace(number=reached * every))
        with disk:
            acknowledged = _change_and_heal(disk)
        if not disk.refused:
            return reached
        for _, store in after_cuts(disk, folder, 1, first=len(disk.steps)):
            assert acknowledged <= {*plants_of(store)} <= {*MEANWHILE, *AFTERWARDS}
    raise AssertionError


def _change_and_heal(disk: Disk) -> set[NewPlant]:
    """Use a store while its disk fails, and after it is healed; return what is acknowledged."""
    acknowledged: set[NewPlant] = set()
    try:
        store = open_with_short_log(disk.path)
    except StoreUnavailableError:
        disk.heal()
        store = open_with_short_log(disk.path)
    with contextlib.closing(store):
        for plant in MEANWHILE:
            with contextlib.suppress(StoreUnavailableError):
                store.apply_changes([plant])
                acknowledged.add(plant)
            assert acknowledged <= {*plants_of(store)} <= {*MEANWHILE}
            store.tidy()
        disk.heal()
        assert store.apply_changes(AFTERWARDS) == [Outcome.STORED] * len(AFTERWARDS)
        assert store.check().problems == []
    return acknowledged | {*AFTERWARDS}
