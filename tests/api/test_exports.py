"""Exports that end early: the request is not allowed any more, or the service stops."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Iterator
from typing import Any, NamedTuple

import pytest

from plantstore.api.exports import EXPORTS_MAX, PAGES_AT_ONCE, READING_THREADS, Exports
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.observe import ExportCutOff, ReadFailed, ignore
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.wal import EXPORT_LOG_BYTES_MAX
from support.stores import MemoryStore
from support.world import ShownThreads, World, assert_error


class PagedStore(MemoryStore):
    """Yields each plant as a page, and counts the open snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.open_snapshots = 0

    def scan_plants(self, *args: Any, **named: Any) -> Generator[list[NewPlant], None, None]:
        self.open_snapshots += 1
        try:
            pages = super().scan_plants(*args, **named)
            yield from ([plant] for page in pages for plant in page)
        finally:
            self.open_snapshots -= 1


@pytest.fixture
def store() -> PagedStore:
    return PagedStore()


@pytest.fixture
def world(store: PagedStore) -> Iterator[World]:
    """Return an application with plants for three pieces, each on a page of its own."""
    with World(store) as world:
        world.put_in(*(NewPlant(id_, "a") for id_ in range(3 * PAGES_AT_ONCE)))
        yield world


class Exported(NamedTuple):
    """What a client got of an export, and the error that cut it off."""

    status: int
    pieces: list[bytes]
    cut_off: RequestError | None = None


def export(world: World, hear: Callable[[list[bytes]], None] = lambda _pieces: None) -> Exported:
    """Export without a network. `hear` gets the pieces after each one."""
    pieces: list[bytes] = []

    async def ask() -> Exported:
        response = await world.call(world.request("GET", "/plants.ndjson"))
        if isinstance(response.body, bytes):
            return Exported(response.status, [response.body])
        try:
            async with contextlib.aclosing(response.body) as body:
                async for piece in body:
                    pieces.append(piece)
                    hear(pieces)
        except RequestError as error:
            return Exported(response.status, pieces, error)
        return Exported(response.status, pieces)

    return world.run(ask())


def revoke(world: World) -> None:
    world.store.revoke_token("all", 1)
    world.now += 10


def wait_too_long(world: World) -> None:
    world.now += 10_000


@pytest.mark.parametrize(
    ("end", "code"),
    [(revoke, ErrorCode.TOKEN_INVALID), (wait_too_long, ErrorCode.REQUEST_TIMEOUT)],
)
def test_an_export_that_is_not_allowed_any_more_is_cut_off_and_no_failure(
    store: PagedStore, world: World, end: Callable[[World], None], code: ErrorCode
) -> None:
    exported = export(world, lambda pieces: end(world) if len(pieces) == 1 else None)

    assert (exported.status, len(exported.pieces)) == (200, 1)
    assert exported.cut_off is not None
    assert exported.cut_off.code == code
    assert [event.error.code for event in world.told(ExportCutOff)] == [code]
    assert not world.told(ReadFailed)
    assert (store.open_snapshots, world.parts.exports.limit.running) == (0, 0)


@pytest.mark.parametrize(("end", "status"), [(revoke, 401), (wait_too_long, 408)])
def test_an_export_that_finds_nothing_for_a_long_time_is_refused_when_it_is_not_allowed_any_more(
    end: Callable[[World], None], status: int
) -> None:
    class EmptyPages(MemoryStore):
        def scan_plants(self, *_: Any, **__: Any) -> Generator[list[NewPlant]]:
            yield []
            end(empty)
            while True:
                yield []

    with World(EmptyPages()) as empty:
        assert export(empty).status == status


def test_an_export_over_the_limit_or_for_http_1_0_is_refused(world: World) -> None:
    old = world.request("GET", "/plants.csv")
    old.version = "1.0"
    for _ in range(EXPORTS_MAX * 3 // 4):
        world.parts.exports.limit.acquire("all")

    refused = world.get("/plants.csv")

    assert_error(refused, 503, ErrorCode.OVERLOADED, "Too many exports with this token run")
    assert world.run(world.respond(old))[0] == 400


def test_no_export_begins_while_an_older_one_keeps_the_log_long(world: World) -> None:
    older = world.store.scan_plants()
    next(older)
    for number in range(EXPORT_LOG_BYTES_MAX // 1_000_000):
        world.put_in(*(NewPlant(100 * number + id_, "x" * 15_000) for id_ in range(100)))

    assert_error(world.get("/plants.csv"), 503, ErrorCode.OVERLOADED, "log of the database is too")
    older.close()


def test_json_lines_of_all_plants_need_no_index(world: World) -> None:
    error = StoreUnavailableError("The index of words is not complete")  # as during a reindex
    world.store.fail(error, "list_plants")

    assert world.send("GET", "/plants.ndjson").status_code == 200
    assert world.send("GET", "/plants.csv").status_code == 503


def test_a_stop_waits_only_for_the_reads_that_have_begun(store: PagedStore, world: World) -> None:
    begun, let_go = threading.Semaphore(0), threading.Event()

    def read() -> bool:
        begun.release()
        return let_go.wait(30)

    async def test() -> None:
        threads, loop = ShownThreads(), asyncio.get_running_loop()
        exports = Exports(world.parts.authenticator, world.store, observe=ignore, threads=threads)
        request = world.request("GET", "/plants.ndjson")
        response = await exports.run(request)
        export: Any = response.body
        pool, many = threads.pools["export"], READING_THREADS + 2
        reads = [loop.run_in_executor(pool, read) for _ in range(many)]
        for _ in range(READING_THREADS):
            await asyncio.to_thread(begun.acquire)
        ending = asyncio.ensure_future(export.aclose())
        for _ in range(10):
            await asyncio.sleep(0)  # it waits for a thread

        async with asyncio.TaskGroup() as group:
            stopping = group.create_task(exports.close())
            await asyncio.wait([*reads[READING_THREADS:], ending])

            assert all(read.cancelled() for read in reads[READING_THREADS:])
            assert store.open_snapshots == 0
            assert not stopping.done()
            let_go.set()
        assert await asyncio.gather(*reads[:READING_THREADS]) == [True] * READING_THREADS

    world.run(test())
