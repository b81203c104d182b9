"""A simulated disk that records every step of SQLite and can inject faults.

It is a VFS (https://sqlite.org/vfs.html) between SQLite and real files. It performs every
operation except sync, which is slow. `CrashStates` computes the files that remain if the power
fails after any step of the history.

The index of the log (-shm) is shared memory to SQLite, and is not simulated.

SQLite hides errors of a checkpoint after a commit or during close. apsw raises them here
nevertheless, because they are Python exceptions. So a commit that raises may have been made,
and closing may raise.
"""

# ruff: noqa: N802 (SQLite names the methods of a disk and its files)

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self

import apsw

from support.crash_states import (
    CrashStates,
    FolderSynced,
    Made,
    Removed,
    Resized,
    Step,
    Synced,
    SyncFailed,
    Written,
)

# SQLite counts the time in milliseconds since the beginning of the Julian period.
_JULIAN_MILLISECONDS_OF_1970 = 210_866_760_000_000


class Fault(NamedTuple):
    """A fault: the disk fails step `number` of a kind, counted from 0.

    If it lasts, the disk also fails all later steps of that kind until it is healed.
    """

    kind: type[Written | Resized | Synced]
    number: int
    error: int
    lasts: bool


class Disk:
    """The simulated disk of a database. It is used by every connection opened within the block.

    Args:
        path: the database.
        seed: the seed of the random numbers that SQLite gets, so that a history is repeatable.
        history: the previous steps. The files begin as these steps left them, synced or not.
        clock: returns the time that SQLite gets, in seconds since 1970; None for the real time.

    """

    def __init__(
        self,
        path: Path,
        seed: int,
        history: Sequence[Step] = (),
        clock: Callable[[], float] | None = None,
    ) -> None:
        self.path = path.resolve()
        self.steps = list(history)
        self.fault: Fault | None = None
        self.clock = clock
        self.refused = 0
        """How many steps failed because of the fault."""
        self._met = 0
        self._chance = random.Random(seed)

    def __enter__(self) -> Self:
        cached = CrashStates(self.steps).cached()
        for suffix, content in cached.items():
            Path(f"{self.path}{suffix}").write_bytes(content)
        self._vfs = _VFS(self, set(cached), self._chance)
        apsw.randomness(0)  # discard SQLite's random state, so that it asks this disk for bytes
        return self

    def __exit__(self, *_: object) -> None:
        self._vfs.unregister()
        apsw.randomness(0)

    def break_down(self, fault: Fault) -> None:
        """Inject a fault from now on."""
        self.fault, self.refused, self._met = fault, 0, 0

    def heal(self) -> None:
        """End the fault."""
        self.fault = None

    def refusal(self, kind: type[Step]) -> Exception | None:
        """Return the error that the next step of this kind must raise, or None."""
        fault = self.fault
        if fault is None or fault.kind is not kind:
            return None
        self._met += 1
        late = self._met - 1 - fault.number
        if late < 0 or (late > 0 and not fault.lasts):
            return None
        self.refused += 1
        return apsw.exception_for(fault.error)


class _VFS(apsw.VFS):
    """The disk as a SQLite VFS; `there` has the suffixes of the existing database files."""

    def __init__(self, disk: Disk, there: set[str], chance: random.Random) -> None:
        self._disk = disk
        self._there = there
        self._chance = chance
        super().__init__(f"disk {id(self)}", "unix", makedefault=True)

    def xOpen(self, name: str | apsw.URIFilename | None, flags: list[int]) -> apsw.VFSFile:
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        if path is None or not path.startswith(str(self._disk.path)):
            return apsw.VFSFile("unix", name, flags)
        suffix = path.removeprefix(str(self._disk.path))
        file = _File(self._disk, suffix, name, flags)
        if suffix not in self._there:
            self._there.add(suffix)
            self._disk.steps.append(Made(suffix))
        return file

    def xDelete(self, filename: str, syncdir: bool) -> None:  # noqa: FBT001 (SQLite's signature)
        super().xDelete(filename, syncdir)
        suffix = filename.removeprefix(str(self._disk.path))
        if suffix in self._there:
            self._there.discard(suffix)
            self._disk.steps.append(Removed(suffix))
        if syncdir:
            self._disk.steps.append(FolderSynced())

    def xCurrentTimeInt64(self) -> int:
        if self._disk.clock is None:
            return super().xCurrentTimeInt64()
        return _JULIAN_MILLISECONDS_OF_1970 + int(self._disk.clock() * 1000)

    def xRandomness(self, numbytes: int) -> bytes:
        return self._chance.randbytes(numbytes)


class _File(apsw.VFSFile):
    """An open file of the database."""

    def __init__(
        self, disk: Disk, suffix: str, name: str | apsw.URIFilename | None, flags: list[int]
    ) -> None:
        super().__init__("unix", name, flags)
        self._disk = disk
        self._suffix = suffix
        # SQLite syncs the folder with the first sync of such a file (unixSync in os_unix.c).
        makes_names_sure = apsw.SQLITE_OPEN_WAL | apsw.SQLITE_OPEN_MAIN_JOURNAL
        self._folder_unsynced = bool(flags[0] & makes_names_sure)

    def xWrite(self, data: Any, offset: int) -> None:
        error = self._disk.refusal(Written)
        taken = bytes(data)
        if error:  # write half of the data, as a disk does that becomes full during a write
            taken = taken[: len(taken) // 2]
        super().xWrite(taken, offset)
        self._disk.steps.append(Written(self._suffix, offset, taken))
        if error:
            raise error

    def xTruncate(self, newsize: int) -> None:
        if error := self._disk.refusal(Resized):
            raise error
        super().xTruncate(newsize)
        self._disk.steps.append(Resized(self._suffix, newsize))

    def xSync(self, flags: int) -> None:  # noqa: ARG002 (SQLite passes the kind of sync)
        if error := self._disk.refusal(Synced):
            self._disk.steps.append(SyncFailed(self._suffix))
            raise error
        self._disk.steps.append(Synced(self._suffix))
        if self._folder_unsynced:
            self._folder_unsynced = False
            self._disk.steps.append(FolderSynced())
