"""Power cuts, and a check that the store opens afterwards with all acknowledged changes."""

import contextlib
import random
import tempfile
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.crash_states import ALL_LOST, ALL_THERE, SOME_THERE, CrashStates, Step, steps_to
from support.disk import Disk
from support.ledger import Content, Ledger


class Cut(NamedTuple):
    """A power cut after `after` steps; `odds` are the odds that uncertain data survives."""

    after: int
    odds: tuple[float, ...]


def some_cuts(chance: random.Random, first: int, last: int, count: int) -> list[Cut]:
    """Return `count` random cuts between two steps of a history."""
    odds = [ALL_LOST, SOME_THERE, SOME_THERE, SOME_THERE, ALL_THERE]
    return [Cut(chance.randrange(first, last + 1), chance.choice(odds)) for _ in range(count)]


def everywhere(disk: Disk, first: int = 0) -> list[Cut]:
    """Return cuts after each step, with none, some and all of the data that is in doubt."""
    return [
        Cut(after, odds)
        for after in range(first, len(disk.steps) + 1)
        for odds in (ALL_LOST, SOME_THERE, ALL_THERE)
    ]


class Survey:
    """Cuts the power, opens the store that is left, and records problems.

    At some cuts only the process ends. Another process then opens the files it left, synced or
    not, and the power fails after that.

    Args:
        folder: the folder for the files that are left.

    """

    def __init__(self, folder: Path) -> None:
        self.cuts = 0
        self.acknowledged = 0
        self.problems: list[str] = []
        self._folder = folder
        self._chance = random.Random(0)

    def cut(self, disk: Disk, ledger: Ledger, cuts: Iterable[Cut], *, again: bool = True) -> None:
        """Cut the power at each of these cuts, and again while the remaining store is opened."""
        states, done = CrashStates(), 0
        for cut in sorted(cuts):
            self.cuts += 1
            states.follow(disk.steps[done : cut.after])
            done = cut.after
            files = states.left(self._chance, cut.odds)
            self._open(f"power {cut}", steps_to(files), ledger.at(cut.after), again=again)
            if again and self._chance.random() < 0.5:
                self._open(f"end {cut}", disk.steps[: cut.after], ledger.at(cut.after), again=True)

    def _open(
        self, event: str, history: Sequence[Step], possible: list[Content], *, again: bool
    ) -> None:
        """Open the store that an event left, as the service does; record its problems."""
        seed = self._chance.getrandbits(64)
        with tempfile.TemporaryDirectory(dir=self._folder) as folder:
            disk = Disk(Path(folder) / "plants.db", seed, history)
            ledger = Ledger(disk, possible)
            problems: list[str] = []
            with disk:
                try:
                    with contextlib.closing(SQLiteStore(str(disk.path))) as store:
                        problems += ledger.read(store)
                        told = len(disk.steps)
                        problems += store.check().problems
                except Exception as error:  # noqa: BLE001 (a damaged file may raise any error)
                    problems.append(repr(error))
        self.problems += [f"{event}: {problem}" for problem in problems]
        if again and not problems:
            cuts = [Cut(told, ALL_LOST), *some_cuts(self._chance, len(history), told, 1)]
            self.cut(disk, ledger, cuts, again=False)
