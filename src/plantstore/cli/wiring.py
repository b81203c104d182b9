"""Wires one process of the service: its telemetry, its store and its application.

`serve` runs it. The tests and the benchmarks run it too, with another clock or writer.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing
from pathlib import Path
from typing import Final

from plantstore.api.app import Parts, create_app
from plantstore.api.auth import Authenticator, RatePerToken
from plantstore.api.change_feed import Changes
from plantstore.api.cors import readable_errors
from plantstore.api.error_responses import render_error
from plantstore.api.exports import Exports
from plantstore.api.file_imports import Imports
from plantstore.api.ids import Ids
from plantstore.api.operations import Measurements, Readiness, Renderings
from plantstore.cli.opening import open_named
from plantstore.commit.batcher import NO_TURNSTILE
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.commit.reader import GroupRead
from plantstore.commit.tail import Tail
from plantstore.commit.writer import GroupCommit
from plantstore.observe import Committed, Observer, Responded, Stopping, fan_out
from plantstore.server.interface import ASGIApp, Budget, ConnectionConfig
from plantstore.server.workers import (
    connections_max,
    freeze_memory,
    handle_stop_signals,
    release_memory,
)
from plantstore.settings import Settings
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Store
from plantstore.telemetry.log import LogQueue, log_events, log_responses
from plantstore.telemetry.metrics import Metrics
from plantstore.threads import THREADS, Threads

# Threads for what is done once, or once a second at most: probes, metrics, compressing the files of
# the page, waiting for other threads to end.
OTHER_THREADS: Final = 4


def make_parts(
    settings: Settings,
    store: Store,
    *,
    observe: Observer,
    metrics: Renderings,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    turnstile: AbstractContextManager[object] = NO_TURNSTILE,
    make_writer: Callable[..., GroupCommit] = GroupCommit,
    make_reader: Callable[..., GroupRead] = GroupRead,
    batch_rows_max: int = BATCH_ROWS_MAX,
    threads: Threads = THREADS,
) -> Parts:
    """Make the parts of the application.

    Args:
        settings: of the service.
        store: has the plants and the tokens.
        observe: gets the events.
        metrics: the functions that render the metrics.
        clock: returns seconds since 1970; tokens expire by it.
        monotonic: a clock in seconds that never goes back.
        turnstile: what the writer enters for each transaction.
        make_writer: makes the writer, with the arguments of GroupCommit.
        make_reader: makes the reader, with the arguments of GroupRead.
        batch_rows_max: number of rows of an import in one transaction.
        threads: makes the threads.

    """
    rate_limit = RatePerToken(settings.rate_per_token)
    authenticator = Authenticator(
        store,
        clock,
        monotonic,
        rate_limit,
        observe,
        public_scopes={"plants:read"} if settings.public_read else (),
        threads=threads,
    )
    writer = make_writer(
        store, observe=observe, monotonic=monotonic, turnstile=turnstile, threads=threads
    )
    reader = make_reader(store, observe=observe, threads=threads)
    return Parts(
        authenticator=authenticator,
        writer=writer,
        reader=reader,
        ids=Ids(authenticator, store, observe=observe, threads=threads),
        imports=Imports(
            authenticator,
            writer,
            reader,
            patience_seconds=settings.request_seconds,
            observe=observe,
            release_memory=release_memory,
            monotonic=monotonic,
            batch_rows_max=batch_rows_max,
            threads=threads,
        ),
        exports=Exports(
            authenticator,
            store,
            observe=observe,
            monotonic=monotonic,
            threads=threads,
        ),
        changes=Changes(
            authenticator,
            reader,
            Tail(store, observe=observe, threads=threads),
            monotonic=monotonic,
        ),
        readiness=Readiness(store, writer, observe=observe, monotonic=monotonic),
        metrics=Measurements(authenticator, metrics, monotonic=monotonic),
        connection_config=ConnectionConfig(
            request_seconds=settings.request_seconds,
            idle_seconds=settings.idle_seconds,
            connections_max=connections_max(),
            budget=Budget(),
            render_error=readable_errors(render_error, settings.allow_origin),
            observe=observe,
        ),
    )


@asynccontextmanager
async def running(parts: Parts) -> AsyncIterator[None]:
    """Run the parts that have threads, on the running event loop."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.exports.close)
        stack.push_async_callback(parts.imports.close)
        for part in (parts.ids.batcher, parts.writer, parts.reader, parts.changes.tail):
            await stack.enter_async_context(part.running())
        yield


def make_app(settings: Settings, store: Store, parts: Parts) -> ASGIApp:
    """Make the application of a process. It closes the store when the server stops."""
    readiness, observe = parts.readiness, parts.connection_config.observe

    def on_stop() -> None:
        readiness.stop()
        parts.changes.stop()
        observe(Stopping())

    @asynccontextmanager
    async def lifespan() -> AsyncIterator[None]:
        freeze_memory()
        asyncio.get_running_loop().set_default_executor(THREADS.pool(OTHER_THREADS, "other"))
        with closing(store):
            async with running(parts):
                handle_stop_signals(settings.drain_seconds, on_stop)
                yield

    return create_app(parts, lifespan(), allow_origins=settings.allow_origin)


class Telemetry:
    """The log and the metrics of a process.

    Args:
        log: of the process.
        settings: of the service.
        folder: where several processes share their counts; None for one process.

    """

    def __init__(self, log: LogQueue, settings: Settings, folder: Path | None = None) -> None:
        self.metrics = Metrics(folder, lambda: log.dropped)
        counts = self.metrics.observe
        responses: list[Observer] = [counts]
        if settings.access_log:
            responses.append(log_responses())
        frequent: dict[type, list[Observer]] = {Responded: responses, Committed: [counts]}
        self.observe = fan_out(log_events(), counts, frequent=frequent)


def build_app(
    settings: Settings,
    store: Store,
    telemetry: Telemetry,
    turnstile: AbstractContextManager[object] = NO_TURNSTILE,
) -> ASGIApp:
    """Wire one process, with the store that it has opened, and what its writer enters."""
    metrics = telemetry.metrics
    parts = make_parts(
        settings, store, observe=telemetry.observe, metrics=metrics.renderings, turnstile=turnstile
    )
    metrics.watch_queue("changes", lambda: parts.writer.waiting)
    metrics.watch_queue("reads", lambda: parts.reader.waiting)
    metrics.watch_queue("streams", lambda: parts.changes.limit.running)
    return make_app(settings, store, parts)


def open_store_of(settings: Settings, telemetry: Telemetry) -> Store:
    """Open the store of the settings."""
    return open_named(
        settings.database,
        SchemaPolicy.MIGRATE if settings.migrate else SchemaPolicy.REQUIRE,
        standbys_min=settings.standbys_min,
        observe=telemetry.observe,
    )
