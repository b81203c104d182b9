"""Imports through a group commit, on a store whose disk may lose its power."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import Any, cast

from plantstore.changes import Change
from plantstore.commit.imports import Conflict, Import
from plantstore.commit.writer import GroupCommit
from plantstore.formats import FORMATS
from plantstore.formats.rows import PIECE_BYTES
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.store import SQLiteStore
from plantstore.store import PlantStore
from support.crash_states import ALL_LOST, ALL_THERE, SOME_THERE, Synced
from support.disk import Disk
from support.ledger import Ledger, tune
from support.power_loss import Cut


class _Committed:
    """A store whose changes go through a group commit, as those of imports and requests do."""

    def __init__(self, store: PlantStore) -> None:
        self._runner = asyncio.Runner()
        self._writer = GroupCommit(store, observe=lambda _: None)
        self._running = self._writer.running()
        self._runner.run(self._running.__aenter__())

    def apply_changes(self, changes: Sequence[Change]) -> list[Any]:
        """Submit a batch of an import, or a single change; return when it is acknowledged."""
        if len(changes) == 1:
            return [self._runner.run(self._writer.submit(changes[0]))]
        return list(self._runner.run(self._writer.submit_all(changes)))

    def close(self) -> None:
        self._runner.run(self._running.__aexit__(None, None, None))
        self._runner.close()


def import_files(disk: Disk, chance: random.Random, files: int) -> Ledger:
    """Import files into the store of a disk, with single changes between their batches."""
    ledger = Ledger(disk)
    with (
        disk,
        contextlib.closing(SQLiteStore(str(disk.path))) as store,
        contextlib.closing(_Committed(store)) as committed,
    ):
        tune(store, chance)
        for number in range(files):
            conflict = chance.choice(list(Conflict))
            run = Import(
                FORMATS["jsonl"].parser(PIECE_BYTES),
                conflict,
                lambda *_: None,
                batch_rows_max=chance.randrange(20, 400),
            )
            run.feed(_file(chance))
            run.finish()
            for batch in iter(run.take, None):
                assert ledger.do(cast("SQLiteStore", committed), batch.changes)
                single: list[Change] = [NewPlant(-number, f"{chance.getrandbits(32)}")]
                assert ledger.do(cast("SQLiteStore", committed), single)
    return ledger


def _file(chance: random.Random) -> bytes:
    plants = []
    for _ in range(1_000):
        size = chance.randrange(2_000, 20_000) if chance.random() < 0.01 else chance.randrange(40)
        name = f"Rosa × {chance.getrandbits(32)}{'x' * size}"
        plants.append(NewPlant(chance.randrange(3_000), name, chance.choice(["a", None])))
    return FORMATS["jsonl"].render(plants)


def around_syncs(disk: Disk, chance: random.Random, count: int) -> list[Cut]:
    """Return cuts before and after `count` syncs, with none, some and all of the data in doubt."""
    syncs = [number for number, step in enumerate(disk.steps) if isinstance(step, Synced)]
    return [
        Cut(after, odds)
        for number in chance.sample(syncs, min(count, len(syncs)))
        for after in (number, number + 1)
        for odds in (ALL_LOST, SOME_THERE, ALL_THERE)
    ]
