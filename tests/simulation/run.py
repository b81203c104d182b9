"""Runs the simulation for a seed, or for many.

PYTHONPATH=tests python -m simulation.run --seconds 60
PYTHONPATH=tests python -m simulation.run --seed 17
"""

import argparse
import asyncio
import contextlib
import gc
import logging
import math
import random
import signal
import sys
import tempfile
import time
import traceback
from pathlib import Path
from typing import Any, NamedTuple

import apsw

from plantstore.observe import Event, RequestFailed
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.tokens import SCOPES, TokenRecord, digest
from simulation.clients import Client, Follower, Guest
from simulation.model import Model
from simulation.scheduler import Loop, StuckError
from simulation.service import Service
from support.disk import (
    CrashStates,
    Disk,
    Fault,
    Kind,
    Resized,
    Step,
    Synced,
    Written,
    steps_to,
)
from support.stores import MEMORY

# Well-formed tokens. One of them is revoked.
TOKEN = "plst_CJnt2qBmtjhzepopTvX6gSUtOxPkzM0jBnaq"
REVOKED = "plst_0123456789012345678901234567890pV6Ps"

# What a disk refuses, and how.
REFUSALS: list[tuple[Kind, int]] = [
    (Synced, apsw.SQLITE_IOERR_FSYNC),
    (Synced, apsw.SQLITE_FULL),
    (Written, apsw.SQLITE_FULL),
    (Written, apsw.SQLITE_IOERR_WRITE),
    (Resized, apsw.SQLITE_IOERR_TRUNCATE),
]

# The memory for unanswered requests under pressure.
PRESSURES = [0, 500, 2_000, 200_000]

# The part of the runs after which the files of the database are checked.
CHECKED = 0.2

LAST_LINES = 40

# The CPU time that a run may take. A usual one takes less than a second.
CPU_SECONDS = 20


class Result(NamedTuple):
    """What a run found."""

    seed: int
    violations: list[str]
    trace: list[str]


class Run:
    """One run of the service, its clients and the faults, from one seed.

    Args:
        seed: decides about everything.
        folder: for the files of the databases.

    """

    def __init__(self, seed: int, folder: Path) -> None:
        self.chance = random.Random(seed)
        self.loop = Loop(self.chance)
        self._folder = folder
        self._seed = seed
        self._ahead = 0.0  # of the clock of the service
        self.model = Model(self.loop.time)
        self._service: Service | None = None
        self._lives = 0
        self.loop.set_exception_handler(self._on_error)

    def _on_error(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        self.model.fail(f"an error in a callback: {context}")

    def _observe(self, event: Event) -> None:
        if isinstance(event, RequestFailed):
            self.model.fail(f"an unexpected error: {event.error!r}")

    def run(self) -> Result:
        random.seed(self._seed)
        signal.signal(signal.SIGPROF, _hang)
        signal.setitimer(signal.ITIMER_PROF, CPU_SECONDS)
        asyncio.set_event_loop(None)
        try:
            self.loop.run_until_complete(self._run())
        except (Exception, StuckError) as error:  # noqa: BLE001 (it is what the run found)
            self.model.fail(f"{type(error).__name__}: {error}")
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            with contextlib.suppress(Exception):
                self.loop.close()
        return Result(self._seed, self.model.violations, self.loop.trace)

    def _clock(self) -> float:
        return 1_800_000_000 + self.loop.now + self._ahead

    def _find_service(self) -> Service:
        if self._service is None or self._service.is_stopping:
            raise ConnectionRefusedError
        return self._service

    async def _run(self) -> None:
        history: list[Step] = []
        clients = [
            Client(number, self.loop, self.model, self._find_service, TOKEN)
            for number in range(self.chance.randrange(1, 5))
        ]
        readers: list[Follower | Guest] = [
            Follower(f"follower {number}", self.loop, self.model, self._find_service, TOKEN)
            for number in range(self.chance.randrange(3))
        ]
        readers += [
            Guest(f"guest {number}", self.loop, self.model, self._find_service, REVOKED)
            for number in range(3)
        ]
        following = [asyncio.ensure_future(each.run()) for each in readers]
        for _ in range(self.chance.choice([1, 1, 2])):
            history = await self._live(history, clients)
        for task in following:
            task.cancel()
        for ended in await asyncio.gather(*following, return_exceptions=True):
            if isinstance(ended, Exception):
                self.model.fail(f"a reader: {ended!r}")
        path = self._folder / "last.db"
        with (
            Disk(path, self._seed, history, self._clock),
            contextlib.closing(SQLiteStore(str(path))) as store,
        ):
            self.model.compare(store)
            if self.chance.random() < CHECKED:
                self.model.violations += store.check().problems

    async def _start(self, history: list[Step]) -> Service:
        self._lives += 1
        path = self._folder / f"{self._lives}.db"
        service = Service(self.loop, path, history, self._clock, self._observe)
        if self._lives == 1:
            for name, token in (("all", TOKEN), ("guest", REVOKED)):
                record = TokenRecord(name, digest(token), frozenset(SCOPES), 0)
                service.store.add_token(record)
        await service.start()
        return service

    async def _live(self, history: list[Step], clients: list[Client]) -> list[Step]:
        """Serve the clients until a stop or a power cut; return what the disk has done."""
        service = self._service = await self._start(history)
        if history:
            self.model.compare(service.store)
        actions = self.chance.choice([2, 4, 7])
        working = [asyncio.ensure_future(client.run(actions)) for client in clients]
        faults = asyncio.ensure_future(self._break(service))
        done = asyncio.gather(*working)
        cut_after = None
        end = self.chance.random()
        if end < 0.4:
            cut_after = len(service.disk.steps) + self.chance.randrange(400)
        power = asyncio.get_running_loop().create_future()

        def look() -> None:
            self.model.violations += service.miscounted()
            cut()

        def cut() -> None:
            if cut_after is not None and len(service.disk.steps) >= cut_after and not power.done():
                self.loop.note("the power fails")
                service.disconnect()
                power.set_result(service.disk.steps[:cut_after])

        self.loop.after_step = look
        # A stop may begin while clients act.
        seconds = self.chance.uniform(0, 3) if end > 0.7 else None
        await asyncio.wait([done, power], return_when=asyncio.FIRST_COMPLETED, timeout=seconds)
        self.loop.after_step = lambda: None
        faults.cancel()
        service.heal()
        if power.done():
            steps = power.result()
            self._service = None
            for task in working:
                task.cancel()
            await asyncio.gather(*working, done, return_exceptions=True)
            await service.stop()
            return steps_to(CrashStates(steps).left(self.chance))
        await self._stop(service, [*working, done])
        return service.disk.steps

    async def _stop(self, service: Service, working: list[asyncio.Future[Any]]) -> None:
        self.loop.note("the service stops")
        left = await service.stop()
        for task in working:
            task.cancel()
        for problem in await asyncio.gather(*working, return_exceptions=True):
            if isinstance(problem, Exception):
                raise problem
        # The lookup of a request that was cancelled at the end of the time ends by itself.
        left += [name for name in self.loop.threads.left() if not name.endswith("-tokens")]
        self.model.violations += [f"left after the stop: {each}" for each in left]

    async def _break(self, service: Service) -> None:
        """Inject faults, one after the other."""
        chance, budget = self.chance, service.budget
        while True:
            await asyncio.sleep(chance.choice([0.05, 0.5, 3]))
            if chance.random() < 0.3:
                self._revoke(service)
            match chance.randrange(9):
                case 0 | 3:
                    budget.incoming_bytes_max = chance.choice(PRESSURES)
                    for _ in range(chance.choice([0, 1, 20])):  # it comes and goes
                        with service.pressure():
                            await asyncio.sleep(0.001)
                        await asyncio.sleep(chance.choice([0.01, 0.1]))
                case 1:
                    kind, error = chance.choice(REFUSALS)
                    lasts = chance.random() < 0.5
                    service.disk.break_down(Fault(kind, chance.randrange(8), error, lasts))
                case 2:
                    self._ahead = chance.choice([0, -3600, 86400, 0.5])
                case 6:
                    service.reads_fail = chance.choice([0.02, 0.3])
                case 7:
                    budget.unread_bytes_max = chance.choice(PRESSURES)
                case 8:
                    self._turn_feed(service)
                case _:
                    service.heal()
            self.loop.note("a fault")

    def _turn_feed(self, service: Service) -> None:
        """Turn the feed off in some runs, and on again. The changes meanwhile are not in it."""
        if service.disk.fault is None and self.chance.random() < 0.3:
            self.model.feed_was_off = True
            service.store.keep_changes(self.chance.choice([0, 7]))
            self.loop.after_step()

    def _revoke(self, service: Service) -> None:
        if self.model.revoked_at == math.inf and service.disk.fault is None:
            service.store.revoke_token("guest", int(self._clock()))
            self.loop.after_step()  # the power may have failed meanwhile
            if not service.is_stopping:
                self.model.revoked_at = self.loop.now


def _hang(*_: object) -> None:
    raise StuckError("".join(traceback.format_stack(limit=4)))


def simulate(seed: int) -> Result:
    """Run the simulation for a seed."""
    # Nothing that is written must last.
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return Run(seed, Path(folder)).run()


def describe(result: Result) -> str:
    lines = [f"seed {result.seed}: {len(result.violations)} violations"]
    lines += [f"  {each[:600]}" for each in result.violations[:10]]
    lines += ["the last steps:", *(f"  {line[:160]}" for line in result.trace[-LAST_LINES:])]
    return "\n".join(lines)


def main() -> int:
    arguments = argparse.ArgumentParser()
    arguments.add_argument("--seed", type=int)
    arguments.add_argument("--seconds", type=float, default=60)
    chosen = arguments.parse_args()
    logging.disable(logging.CRITICAL)
    gc.freeze()  # so that no collection visits the modules again
    if chosen.seed is not None:
        result = simulate(chosen.seed)
        sys.stdout.write(describe(result) + "\n")
        return bool(result.violations)
    first = random.SystemRandom().getrandbits(40)
    ends, seeds = time.monotonic() + chosen.seconds, 0
    while time.monotonic() < ends:
        result = simulate(first + seeds)
        seeds += 1
        if result.violations:
            sys.stdout.write(describe(result) + "\n")
            return 1
    sys.stdout.write(f"{seeds} seeds from {first}\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
