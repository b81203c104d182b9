"""What a disk may have kept when its power went, after a history of steps.

Theory of operation
-------------------
Rule 1: what was synced is there.
Rule 2: of what was not, each sector of each write is there or not, whatever became of the
        others; so is each change of a file's size.
Rule 3: after a sync that failed, what it was about is no longer to be synced, and stays in
        doubt until it is written again, as on Linux (https://wiki.postgresql.org/wiki/Fsync_Errors).
Rule 4: a name stands for a file, or for none, for sure once the folder is synced.

What was under way when the power went needs no rule of its own. A write that is done and
not synced may be lost in the same ways, and a sync that is not done has promised nothing.
"""

import itertools
import random
from collections.abc import Iterable, Sequence
from enum import Enum
from typing import Final, NamedTuple, TypeAlias

SECTOR_BYTES: Final = 512

# How likely each thing in doubt is there. One of them holds for a whole file, so that a
# file that is all there meets one that is not.
ALL_LOST: Final = (0.0,)
ALL_THERE: Final = (1.0,)
SOME_THERE: Final = (0.0, 0.1, 0.5, 0.9, 1.0)


class Made(NamedTuple):
    """A file was made; files go by what their names add to the database's: "", "-wal"."""

    file: str


class Removed(NamedTuple):
    """A file was taken away."""

    file: str


class Written(NamedTuple):
    """Bytes were written."""

    file: str
    offset: int
    data: bytes

    def apply(self, content: bytearray, start: int = 0, end: int | None = None) -> None:
        """Write it, or only the bytes of it between these two."""
        data = self.data[start:end]
        _resize(content, max(len(content), self.offset + start))
        content[self.offset + start : self.offset + start + len(data)] = data

    def apply_some(self, content: bytearray, chance: random.Random, likely: float) -> None:
        """Write the sectors of it that chance wants to be there."""
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
    """A file was made this long."""

    file: str
    size: int

    def apply(self, content: bytearray) -> None:
        """Make it so long."""
        _resize(content, self.size)

    def apply_some(self, content: bytearray, chance: random.Random, likely: float) -> None:
        """Make it so long, if chance wants it."""
        if chance.random() < likely:
            self.apply(content)


class Synced(NamedTuple):
    """A file was synced."""

    file: str


class SyncFailed(NamedTuple):
    """A file was to be synced, and was not."""

    file: str


class FolderSynced(NamedTuple):
    """The names of the files were synced."""


Step: TypeAlias = Made | Removed | Written | Resized | Synced | SyncFailed | FolderSynced


def _resize(content: bytearray, size: int) -> None:
    del content[size:]
    content.extend(bytes(size - len(content)))


class _Fate(Enum):
    UNSYNCED = "it is in doubt until the next sync"
    SYNCED = "it is sure"
    DOUBTFUL = "it is in doubt for good"


class _File:
    """What is in a file: what is sure, and the changes to it, of which one at least is not."""

    def __init__(self) -> None:
        self.sure = bytearray()
        self.changes: list[tuple[Written | Resized, _Fate]] = []

    def decide(self, fate: _Fate) -> None:
        """Give what is not synced yet this fate."""
        changes = [(step, fate if was is _Fate.UNSYNCED else was) for step, was in self.changes]
        sure = list(itertools.takewhile(lambda change: change[1] is _Fate.SYNCED, changes))
        for step, _ in sure:
            step.apply(self.sure)
        self.changes = changes[len(sure) :]

    def left(self, chance: random.Random, likely: float) -> bytes:
        """Return what may be left of it."""
        content = bytearray(self.sure)
        for step, fate in self.changes:
            if fate is _Fate.SYNCED:
                step.apply(content)
            else:
                step.apply_some(content, chance, likely)
        return bytes(content)


class Platter:
    """What is on a disk after some steps."""

    def __init__(self, steps: Iterable[Step] = ()) -> None:
        # Each name with what it may stand for, the oldest first: more than one if in doubt.
        self._names: dict[str, list[_File | None]] = {}
        self.follow(steps)

    def follow(self, steps: Iterable[Step]) -> None:
        """Do more steps."""
        for step in steps:
            match step:
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
                case Written(name) | Resized(name):
                    self._file(name).changes.append((step, _Fate.UNSYNCED))

    def left(self, chance: random.Random, odds: Sequence[float] = SOME_THERE) -> dict[str, bytes]:
        """Return the files that may be left if the power goes now."""
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
    """Return a history of files that are there for sure."""
    steps: list[Step] = []
    for name, content in files.items():
        steps += [Made(name), Written(name, 0, content), Synced(name)]
    return [*steps, FolderSynced()]
