"""The real service on the simulated disk, from its start to its stop, without a socket."""

import asyncio
import contextlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from plantstore.cli.wiring import make_parts, make_server, running
from plantstore.errors import BatchRefusedError, StoreUnavailableError
from plantstore.observe import Observer
from plantstore.server.budget import Budget
from plantstore.server.connection import Connection
from plantstore.server.serving import shut_down
from plantstore.settings import Settings
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from simulation.scheduler import Loop
from support.disk import Disk, Step
from support.stores import READ_METHODS
from support.virtual_time import FakeTransport

# How long a stop may take. After a short time, what runs is cancelled.
STOP_SECONDS = [1, 10]

# The longest time that a call of the store takes, and how likely it takes longer than a moment.
CALL_SECONDS_MAX = 3.0
SLOW = 0.03

# What the service holds of a part of a response that it has not written.
HELD_MAX = 1024 * 1024

# How long calls may go on after a stop.
LEFT_SECONDS = 10 * CALL_SECONDS_MAX

# How likely a call with several changes is refused as a whole.
REFUSED = 0.05

# The calls that may fail without an effect.
MAY_FAIL = {*READ_METHODS, "hand_out_ids"}

# The size to which the log is limited, so that it is often copied and restarted.
LOG_BYTES = 64 * 1024


class SnapshotStore(SQLiteStore):
    """A store in which time passes before and after the beginning of a snapshot."""

    pass_time: Callable[[], None] = staticmethod(lambda: None)

    @contextlib.contextmanager
    def _snapshot(self) -> Iterator[Any]:
        self.pass_time()
        with super()._snapshot() as connection:
            self.pass_time()
            yield connection


class SlowStore:
    """A store whose calls take time: before they have an effect, and before they return.

    Args:
        store: the real one.
        loop: schedules everything.
        reads_fail: returns how likely a read fails.

    """

    def __init__(
        self, store: SnapshotStore, loop: Loop, reads_fail: Callable[[], float] = lambda: 0.0
    ) -> None:
        self.store = store
        self._loop = loop
        self._applied = 0
        self._reads_fail = reads_fail
        store.pass_time = self._pass_time

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.store, name)
        if not callable(found) or name == "maintain":
            return found

        def call(*args: Any, **kwargs: Any) -> Any:
            self._applied += name == "apply_changes"
            self._pass_time()
            if name in MAY_FAIL:
                self._may_fail()
            is_batch = name == "apply_changes" and len(args[0]) > 1
            if is_batch and self._loop.chance.random() < REFUSED:
                raise BatchRefusedError("One of these changes is refused")
            try:
                return found(*args, **kwargs)
            finally:
                self._pass_time()

        return call

    def scan_plants(self, *args: Any) -> Iterator[Any]:
        with contextlib.closing(self.store.scan_plants(*args)) as scan:
            for page in scan:
                self._pass_time()
                self._may_fail()
                yield page

    @contextlib.contextmanager
    def watch_changes(self) -> Iterator[Callable[[float], bool]]:
        seen = self._applied

        def wait(seconds: float) -> bool:
            nonlocal seen
            self._loop.threads.sleep(seconds)
            self._may_fail()
            seen, before = self._applied, seen
            return seen != before and self._loop.chance.random() < 0.9  # a notification may be lost

        self._pass_time()
        yield wait

    def _may_fail(self) -> None:
        if self._loop.chance.random() < self._reads_fail():
            raise StoreUnavailableError("The database cannot be read")

    def _pass_time(self) -> None:
        chance = self._loop.chance
        slow = chance.random() < SLOW
        self._loop.threads.sleep(chance.uniform(0, CALL_SECONDS_MAX if slow else 0.004))


class InOrder(dict[Any, None]):
    """A set with the order of its insertions. That of a usual set does not follow from the seed."""

    def add(self, item: object) -> None:
        self[item] = None

    def discard(self, item: object) -> None:
        self.pop(item, None)


class Service:
    """The service from its start to its stop.

    Args:
        loop: schedules everything.
        path: of the database.
        history: what the disk has done before.
        clock: returns the time in seconds since 1970.
        observe: gets the events.

    Attributes:
        disk: the simulated disk.
        store: the real store, without delays.
        parts: of the application.
        budget: of its connections.
        is_stopping: whether it accepts no connections.
        reads_fail: how likely a read of the store fails.

    """

    def __init__(
        self,
        loop: Loop,
        path: Path,
        history: Sequence[Step],
        clock: Callable[[], float],
        observe: Observer,
    ) -> None:
        self._loop = loop
        self._opened = contextlib.AsyncExitStack()
        self.disk = self._opened.enter_context(
            Disk(path, loop.chance.getrandbits(32), history, clock)
        )
        self.reads_fail = 0.0
        # This clock advances with each reading, so that no code waits.
        seconds = itertools.count()
        self.store = SnapshotStore(
            str(path), monotonic=lambda: next(seconds), log_bytes_max=LOG_BYTES
        )
        self._opened.callback(self.store.close)
        self.store.keep_changes(7)
        slow: Any = SlowStore(self.store, loop, lambda: self.reads_fail)
        settings = Settings(stop_seconds=loop.chance.choice(STOP_SECONDS))
        self.parts = make_parts(
            settings,
            slow,
            observe=observe,
            render_metrics=lambda: b"metrics",
            clock=clock,
            monotonic=loop.time,
            threads=loop.threads,
            batch_rows_max=loop.chance.choice([1, 2, 20]),  # so that an error is between two
        )
        self._server = make_server(settings, self.parts, observe)
        self.budget = self._server.budget
        in_order: Any = InOrder
        self._server.connections, self._server.tasks = in_order(), in_order()
        self._transports: list[FakeTransport] = []
        self.is_stopping = False

    async def start(self) -> None:
        await self._opened.enter_async_context(running(self.parts))

    def connect(self) -> FakeTransport:
        """Return a new connection.

        Raises:
            ConnectionRefusedError: the service stops.

        """
        if self.is_stopping:
            raise ConnectionRefusedError
        transport = FakeTransport(self._loop, Connection(self._server, self._loop))
        self._transports.append(transport)
        return transport

    @contextlib.contextmanager
    def pressure(self) -> Iterator[None]:
        """Let there be no memory for requests while the block runs."""
        usual, self.budget.incoming_bytes_max = self.budget.incoming_bytes_max, 0
        yield
        self.budget.incoming_bytes_max = usual

    def heal(self) -> None:
        """End the faults of the disk, of reads and of the memory."""
        budget, usual = self.budget, Budget()
        self.disk.heal()
        self.reads_fail = 0.0
        budget.incoming_bytes_max = usual.incoming_bytes_max
        budget.unread_bytes_max = usual.unread_bytes_max

    def disconnect(self) -> None:
        """End all connections, as a power cut does. No client gets anything any more."""
        self.is_stopping = True
        for transport in self._transports:
            transport.leave()

    async def stop(self) -> list[str]:
        """Stop as after SIGTERM; return what is left that should not."""
        self.is_stopping = True
        self.parts.readiness.stop()
        self.parts.changes.stop()
        await shut_down(self._server)
        while self._server.tasks:  # noqa: ASYNC110 (as the runner does at the end)
            await asyncio.sleep(0.05)
        for transport in self._transports:
            transport.leave()
        left = ["not looked yet"]
        ends = self._loop.time() + LEFT_SECONDS  # an import that was cancelled twice ends later
        while left and self._loop.time() < ends:
            await asyncio.sleep(0.1)
            left = self._left()
        await self._opened.aclose()
        return left

    def miscounted(self) -> list[str]:
        """Return which bytes of connections are not counted as they are."""
        self._transports = [each for each in self._transports if not each.is_lost]
        held = sum(each.held_bytes for each in self._server.connections)
        unread = sum(each.get_write_buffer_size() for each in self._transports)
        counts = [
            ("unanswered", held, self.budget.incoming_bytes, held),
            ("unread", unread, self.budget.unread_bytes, unread + HELD_MAX * len(self._transports)),
        ]
        return [
            f"{count} of {least} {what} bytes are counted"
            for what, least, count, most in counts
            if not least <= count <= most
        ]

    def _left(self) -> list[str]:
        """Return the names of counters that are not zero."""
        parts, budget = self.parts, self.budget
        counters = {
            "incoming bytes": budget.incoming_bytes,
            "unread bytes": budget.unread_bytes,
            "changes": parts.writer.waiting,
            "reads": parts.reader.waiting,
            "ids": parts.ids.batcher.waiting,
            "imports": parts.bulk.limit.running,
            "exports": parts.exports.limit.running,
            "streams": parts.changes.limit.running,
            "connections": len(self._server.connections),
        }
        return [f"{name}: {value}" for name, value in counters.items() if value]
