"""The files that a disk may have after a power loss that follows a history of steps.

Theory of operation
-------------------
Rule 1: Synced data survives.
Rule 2: Of unsynced data, each sector of each write survives or is lost, independently of the
        others. The same holds for each change of a file's size.
Rule 3: After a failed sync, a later sync does not write the data of the failed one. The data stays
        uncertain until it is written again, as on Linux
        (https://wiki.postgresql.org/wiki/Fsync_Errors).
Rule 4: The creation or removal of a file name is certain once the folder is synced.

A step that was in progress at the power loss needs no extra rule. A completed write that is
not synced may be lost in the same ways, and an incomplete sync guarantees nothing.
"""

import itertools
import random
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

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
