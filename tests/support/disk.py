"""A simulated disk that records every step of SQLite and can inject faults.

`Disk` is a VFS (https://sqlite.org/vfs.html) between SQLite and real files. It performs every
operation except sync, which is slow. `CrashStates` computes the files that remain if the power
fails after any step of the history:

Rule 1: Synced data survives.
Rule 2: Of unsynced data, each sector of each write survives or is lost, independently of the
        others. The same holds for each change of a file's size.
Rule 3: After a failed sync, a later sync does not write the data of the failed one. The data stays
        uncertain until it is written again, as on Linux
        (https://wiki.postgresql.org/wiki/Fsync_Errors).
Rule 4: The creation or removal of a file name is certain once the folder is synced.

A step that was in progress at the power loss needs no extra rule. A completed write that is
not synced may be lost in the same ways, and an incomplete sync guarantees nothing.

The index of the log (-shm) is shared memory to SQLite, and is not simulated. SQLite hides errors of
a checkpoint after a commit or during close. apsw raises them here nevertheless, because they are
Python exceptions. So a commit that raises may have been made, and closing may raise.
"""

# ruff: noqa: N802 (SQLite names the methods of a disk and its files)

import contextlib
import itertools
import random
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, Final, NamedTuple, Self, TypeAlias

import apsw

from plantstore.storage.sqlite.sqlite_store import SQLiteStore

SECTOR_BYTES: Final = 512

# Probabilities that uncertain data survives. One of them applies to a whole file, so that a
# complete file can meet an incomplete one.
ALL_LOST: Final = (0.0,)
ALL_THERE: Final = (1.0,)
SOME_THERE: Final = (0.0, 0.1, 0.5, 0.9, 1.0)


class Made(NamedTuple):
    """A file was created. A file is named by its suffix to the database's name: "", "-wal"."""

    file: str


class Removed(NamedTuple):
    """A file was removed."""

    file: str


class Written(NamedTuple):
    """Bytes were written."""

    file: str
    offset: int
    data: bytes

    def apply(self, content: bytearray, start: int = 0, end: int | None = None) -> None:
        """Write the data, or only its bytes from `start` to `end`."""
        data = self.data[start:end]
        _resize(content, max(len(content), self.offset + start))
        content[self.offset + start : self.offset + start + len(data)] = data

    def apply_some(self, content: bytearray, chance: random.Random, likely: float) -> None:
        """Write a random selection of its sectors; each is written with probability `likely`."""
        end = self.offset + len(self.data)
        if end > len(content) and chance.random() < likely:
            _resize(content, end)
        if chance.random() < 0.5:
            starts = [self.offset]
        else:
            first = self.offset - self.offset % SECTOR_BYTES + SECTOR_BYTES
            starts = [self.offset, *range(first, end, SECTOR_BYTES)]
        for start, stop in itertools.pairwise([*starts, end]):
            if chance.random() < likely:
                self.apply(content, start - self.offset, stop - self.offset)


class Resized(NamedTuple):
    """A file was truncated or extended to this size."""

    file: str
    size: int

    def apply(self, content: bytearray) -> None:
        """Resize the content."""
        _resize(content, self.size)

    def apply_some(self, content: bytearray, chance: random.Random, likely: float) -> None:
        """Resize the content with probability `likely`."""
        if chance.random() < likely:
            self.apply(content)


class Synced(NamedTuple):
    """A file was synced."""

    file: str


class SyncFailed(NamedTuple):
    """The sync of a file failed."""

    file: str


class FolderSynced(NamedTuple):
    """The folder was synced, and with it the names of the files."""


Step: TypeAlias = Made | Removed | Written | Resized | Synced | SyncFailed | FolderSynced


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


class _Fate(Enum):
    UNSYNCED = "it is in doubt until the next sync"
    SYNCED = "it is sure"
    DOUBTFUL = "it is in doubt for good"


class _File:
    """The content of a file: its certain part, and the later changes; the first is uncertain."""

    def __init__(self) -> None:
        self.sure = bytearray()
        self.changes: list[tuple[Written | Resized, _Fate]] = []

    def decide(self, fate: _Fate) -> None:
        """Give this fate to all changes that are not synced yet."""
        changes = [(step, fate if was is _Fate.UNSYNCED else was) for step, was in self.changes]
        sure = list(itertools.takewhile(lambda change: change[1] is _Fate.SYNCED, changes))
        for step, _ in sure:
            step.apply(self.sure)
        self.changes = changes[len(sure) :]

    def left(self, chance: random.Random, likely: float) -> bytes:
        """Return a content that the file may have after a power loss."""
        content = bytearray(self.sure)
        for step, fate in self.changes:
            if fate is _Fate.SYNCED:
                step.apply(content)
            else:
                step.apply_some(content, chance, likely)
        return bytes(content)


class CrashStates:
    """The content of a disk after some steps."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        # The possible files of each name, the oldest first; more than one if it is uncertain.
        self._names: dict[str, list[_File | None]] = {}
        self.follow(steps)

    def follow(self, steps: Iterable[Step]) -> None:
        """Apply more steps."""
        for step in steps:
            match step:
                case Written(name) | Resized(name):  # most steps are
                    self._file(name).changes.append((step, _Fate.UNSYNCED))
                case Made(name):
                    self._names.setdefault(name, [None]).append(_File())
                case Removed(name):
                    self._names[name].append(None)
                case FolderSynced():
                    self._names = {name: may_be[-1:] for name, may_be in self._names.items()}
                case Synced(name):
                    self._file(name).decide(_Fate.SYNCED)
                case SyncFailed(name):
                    self._file(name).decide(_Fate.DOUBTFUL)

    def left(self, chance: random.Random, odds: Sequence[float] = SOME_THERE) -> dict[str, bytes]:
        """Return files that may be left if the power fails now."""
        files: dict[str, bytes] = {}
        likely = chance.choice(odds)
        for name, may_be in self._names.items():
            there = may_be[0]
            for newer in may_be[1:]:
                if chance.random() < likely:
                    there = newer
            if there is not None:
                files[name] = there.left(chance, chance.choice(odds))
        return files

    def cached(self) -> dict[str, bytes]:
        """Return the files as programs see them while the power is on."""
        return self.left(random.Random(0), ALL_THERE)

    def _file(self, name: str) -> _File:
        file = self._names[name][-1]
        assert file is not None, f"{name} is written after it was removed"
        return file


def steps_to(files: dict[str, bytes]) -> list[Step]:
    """Return a history after which these files are certain to exist."""
    steps: list[Step] = []
    for name, content in files.items():
        steps += [Made(name), Written(name, 0, content), Synced(name)]
    return [*steps, FolderSynced()]


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
        file = _OpenFile(self._disk, suffix, name, flags)
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


class _OpenFile(apsw.VFSFile):
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


Kind: TypeAlias = type[Written | Resized | Synced]


def after_cuts(disk: Disk, folder: Path, count: int, first: int = 0) -> Iterator[SQLiteStore]:
    """Cut the power so many times at random, and yield the store that is left.

    Args:
        disk: has the steps.
        folder: for the files that are left.
        count: of the cuts.
        first: number of steps before the earliest cut.

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
                yield store
