"""Exports that end early: the response is cancelled, or the request is not allowed any more."""

import asyncio
import contextlib
import threading
from collections.abc import Callable, Generator, Sequence
from typing import Any

import pytest
from falcon.asgi import Response
from falcon.testing import create_asgi_req

from plantstore.api.exports import EXPORTS_MAX, THREADS_MAX, Exports
from plantstore.errors import ErrorCode
from plantstore.formats import FORMATS
from plantstore.listings import EVERYTHING, Listing
from plantstore.observe import ExportCutOff, ReadFailed, RequestFailed
from plantstore.plants import NewPlant
from plantstore.server.interface import ABORT
from support.fake_store import FakeStore
from support.world import World, run

PATH = "/plants.ndjson"


class PagedStore(FakeStore):
    """Yields each plant as a page, and counts the open snapshots."""

    def __init__(self) -> None:
        super().__init__()
        self.open_snapshots = 0

    def scan_plants(self, listing: Listing = EVERYTHING) -> Generator[list[NewPlant], None, None]:
        self.open_snapshots += 1
        try:
            plants = super().scan_plants(listing)
            yield from ([plant] for some in plants for plant in some)
        finally:
            self.open_snapshots -= 1


def paged_world() -> tuple[PagedStore, World]:
    store = PagedStore()
    world = World(store)
    world.put_in(*(NewPlant(id_, "a") for id_ in range(3)))
    return store, world


def scope_of(world: World) -> dict[str, Any]:
    """Return the ASGI scope of an export."""
    headers = {"host": "x", "authorization": f"Bearer {world.token}"}
    scope: dict[str, Any] = {"type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1"}
    scope |= {"method": "GET", "path": PATH, "raw_path": PATH.encode(), "query_string": b""}
    scope |= {"client": None, "server": None, "scheme": "http", "root_path": ""}
    return scope | {"headers": [(k.encode(), v.encode()) for k, v in headers.items()]}


async def receive() -> dict[str, Any]:
    return {"type": "http.request", "body": b"", "more_body": False}


async def export(world: World) -> list[Any]:
    """Export without a network; return what was sent."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message)

    await world.app(scope_of(world), receive, send)
    return sent


async def cancel_at(world: World, kind: str) -> None:
    """Cancel an export while a message of this kind is sent, and the client does not take it."""
    reached = asyncio.Event()

    async def send(message: Any) -> None:
        if message["type"] == kind and not reached.is_set():
            reached.set()
            await asyncio.Event().wait()

    task = asyncio.ensure_future(world.app(scope_of(world), receive, send))
    await reached.wait()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("kind", ["http.response.start", "http.response.body"])
def test_the_places_of_cancelled_exports_are_free_again_and_their_snapshots_closed(
    kind: str,
) -> None:
    store, world = paged_world()
    sent: list[Any] = []

    async def test(world: World) -> None:
        for _ in range(EXPORTS_MAX):
            await cancel_at(world, kind)
        sent.extend(await export(world))

    run(test, world)

    assert sent[0]["status"] == 200
    assert b"".join(message.get("body", b"") for message in sent).count(b"\n") == 3
    assert store.open_snapshots == 0
    assert not world.told(ReadFailed)


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
    end: Callable[[World], None], code: ErrorCode
) -> None:
    store, world = paged_world()
    sent: Sequence[Any] = []

    async def test(world: World) -> None:
        nonlocal sent
        messages: list[Any] = []

        async def send(message: Any) -> None:
            messages.append(message)
            if len(messages) == 2:
                end(world)

        await world.app(scope_of(world), receive, send)
        sent = messages

    run(test, world)

    assert [message["type"] for message in sent] == [
        "http.response.start",
        "http.response.body",
        "plantstore.abort",
    ]
    assert [event.error.code for event in world.told(ExportCutOff)] == [code]
    assert not world.told(ReadFailed)
    assert store.open_snapshots == 0


@pytest.mark.parametrize(("end", "status"), [(revoke, 401), (wait_too_long, 408)])
def test_an_export_that_finds_nothing_for_a_long_time_is_refused_when_it_is_not_allowed_any_more(
    end: Callable[[World], None], status: int
) -> None:
    class EmptyPages(FakeStore):
        def scan_plants(self, _listing: Listing = EVERYTHING) -> Generator[list[NewPlant]]:
            yield []
            end(world)
            while True:
                yield []

    world = World(EmptyPages())
    sent: list[Any] = []

    async def test(world: World) -> None:
        sent.extend(await export(world))

    run(test, world)

    assert sent[0]["status"] == status


def test_an_export_that_is_running_at_the_end_of_a_stop_is_aborted() -> None:
    sent: list[Any] = []

    async def test(world: World) -> None:
        world.put_in(NewPlant(1, "a"))
        has_begun = asyncio.Event()

        async def send(event: Any) -> None:
            sent.append(event)
            if event["type"] == "http.response.body":
                has_begun.set()
                await asyncio.Event().wait()  # the client reads nothing

        serving = asyncio.ensure_future(world.app(scope_of(world), receive, send))
        await has_begun.wait()
        serving.cancel()  # as uvicorn does
        await asyncio.wait([serving])
        assert not serving.cancelled()
        assert serving.exception() is None

    world = run(test)

    assert [event["type"] for event in sent[:-1]] == ["http.response.start", "http.response.body"]
    assert sent[-1] is ABORT
    assert world.told(ReadFailed) == []
    assert world.told(RequestFailed) == []


def test_a_stop_waits_for_the_reads_that_have_begun_and_for_no_others() -> None:
    begun, let_go = threading.Semaphore(0), threading.Event()

    def read() -> bool:
        begun.release()
        return let_go.wait(30)

    async def test(world: World) -> None:
        exports = Exports(world.parts.authenticator, world.store, seconds_max=1)
        reads = [asyncio.ensure_future(exports.in_thread(read)) for _ in range(THREADS_MAX + 2)]
        for _ in range(THREADS_MAX):
            await asyncio.to_thread(begun.acquire)
        running = exports.running()
        await running.__aenter__()
        closing = asyncio.ensure_future(running.__aexit__(None, None, None))

        await asyncio.wait(reads[THREADS_MAX:])

        assert all(read.cancelled() for read in reads[THREADS_MAX:])
        assert not closing.done()
        let_go.set()
        await closing
        assert await asyncio.gather(*reads[:THREADS_MAX]) == [True] * THREADS_MAX

    run(test)


def test_an_export_that_ends_when_no_thread_is_free_at_a_stop_closes_its_snapshot() -> None:
    store, world = paged_world()
    begun, let_go = threading.Semaphore(0), threading.Event()

    def read() -> bool:
        begun.release()
        return let_go.wait(30)

    async def test(world: World) -> None:
        exports = Exports(world.parts.authenticator, world.store, seconds_max=1)
        resp = Response()
        headers = {"Authorization": f"Bearer {world.token}"}
        await exports.run(create_asgi_req(headers=headers), resp, FORMATS["ndjson"], EVERYTHING)
        export: Any = resp.stream
        reads = [asyncio.ensure_future(exports.in_thread(read)) for _ in range(THREADS_MAX)]
        for _ in range(THREADS_MAX):
            await asyncio.to_thread(begun.acquire)
        ending = asyncio.ensure_future(export.close())
        for _ in range(10):
            await asyncio.sleep(0)  # it waits for a thread

        running = exports.running()
        await running.__aenter__()
        stopping = asyncio.ensure_future(running.__aexit__(None, None, None))
        await ending

        assert store.open_snapshots == 0
        let_go.set()
        await stopping
        await asyncio.gather(*reads)

    run(test, world)


@pytest.mark.parametrize("path", ["/plants", PATH])
def test_pages_and_exports_vary_by_the_coding_alone(path: str) -> None:
    async def test(world: World) -> None:
        world.put_in(NewPlant(1, "x" * 5_000))
        fields = {"Authorization": f"Bearer {world.token}", "Accept": "text/csv"}
        for more in ({}, {"Accept-Encoding": "gzip"}):
            answer = await world.client.get(path, headers=fields | more)

            assert answer.status_code == 200
            assert answer.headers["Vary"] == "Accept-Encoding"

    run(test)
