"""Imports through a group commit, on a store whose disk may lose its power."""

import asyncio
import contextlib
import random
from collections.abc import Sequence
from typing import cast

from plantstore.changes import Change, Result
from plantstore.commit.imports import Conflict, Import
from plantstore.commit.writer import GroupCommit
from plantstore.formats import FORMATS
from plantstore.formats.rows import PIECE_BYTES
from plantstore.observe import ignore
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.store import SQLiteStore
from support.crash_states import ALL_LOST, ALL_THERE, SOME_THERE, Synced
from support.disk import Disk
from support.ledger import Ledger, tune
from support.power_loss import Cut


class _Committed:
    """A store whose changes go through a group commit, as those of imports and requests do."""

    def __init__(self, writer: GroupCommit, loop: asyncio.AbstractEventLoop) -> None:
        self._writer = writer
        self._loop = loop

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        """Submit a batch of an import, or a single change; return when it is acknowledged."""
        submitted = self._submit(changes)
        return asyncio.run_coroutine_threadsafe(submitted, self._loop).result(60)

    async def _submit(self, changes: Sequence[Change]) -> list[Result]:
        if len(changes) == 1:
            return [await self._writer.submit(changes[0])]
        return cast("list[Result]", list(await self._writer.submit_all(changes)))


def import_files(disk: Disk, chance: random.Random, files: int) -> Ledger:
    """Import files into the store of a disk, with single changes between their batches."""
    ledger = Ledger(disk)

    async def main(store: SQLiteStore) -> None:
        writer = GroupCommit(store, observe=ignore)
        async with writer.running():
            committed = cast("SQLiteStore", _Committed(writer, asyncio.get_running_loop()))
            await asyncio.to_thread(_import, ledger, committed, chance, files)

    with disk, contextlib.closing(SQLiteStore(str(disk.path))) as store:
        tune(store, chance)
        asyncio.run(main(store))
    return ledger


def _import(ledger: Ledger, store: SQLiteStore, chance: random.Random, files: int) -> None:
    for number in range(files):
        run = Import(
            FORMATS["jsonl"].parser(PIECE_BYTES),
            chance.choice(list(Conflict)),
            lambda *_: None,
            batch_rows_max=chance.randrange(20, 400),
        )
        run.feed(_file(chance))
        run.finish()
        for batch in iter(run.take, None):
            assert ledger.do(store, batch.changes)
            assert ledger.do(store, [NewPlant(-number, f"{chance.getrandbits(32)}")])


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
