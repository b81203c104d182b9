"""Wires one process of the service: its telemetry, its store and its application.

`serve` runs it. The tests and the benchmarks run it too, with another clock or writer.
"""

import asyncio
import socket
import ssl
import time
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractContextManager, AsyncExitStack, asynccontextmanager, closing
from functools import partial
from pathlib import Path
from typing import Final

import uvloop

from plantstore.api.app import App, Parts
from plantstore.api.auth import Authenticator
from plantstore.api.bulk_changes import BulkChanges
from plantstore.api.change_feed import ChangeFeed
from plantstore.api.cors import CrossOrigin
from plantstore.api.exports import Exports
from plantstore.api.file_imports import FileImports
from plantstore.api.ids import Ids
from plantstore.api.limits import RatePerToken
from plantstore.api.monitoring import Measurements, Readiness
from plantstore.api.plants import Plants
from plantstore.api.static_files import load_web
from plantstore.api.undos import Undos
from plantstore.commit.batcher import NO_TURNSTILE
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.commit.reader import GroupRead
from plantstore.commit.tail import Tail
from plantstore.commit.writer import GroupCommit
from plantstore.observe import Committed, Observer, Responded, Started, Stopped, Stopping, fan_out
from plantstore.server.budget import Budget
from plantstore.server.connection import Server
from plantstore.server.forwarded import TrustedProxies
from plantstore.server.process import connections_max, freeze_memory, release_memory
from plantstore.server.serving import StopSignals, serve
from plantstore.server.supervisor import report_to_parent
from plantstore.settings import Settings
from plantstore.store import Store
from plantstore.telemetry.log import LogQueue, log_events, log_responses
from plantstore.telemetry.metrics import Metrics
from plantstore.threads import THREADS, Threads

# Threads for what is done once, or once a second at most: checks, metrics, compressing the files of
# the page, waiting for other threads to end.
OTHER_THREADS: Final = 4


def make_parts(
    settings: Settings,
    store: Store,
    *,
    observe: Observer,
    render_metrics: Callable[[], bytes],
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
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
        render_metrics: renders the metrics, on another thread.
        clock: returns seconds since 1970; tokens expire by it.
        monotonic: a clock in seconds that never goes back.
        make_writer: makes the writer, with the arguments of GroupCommit.
        make_reader: makes the reader, with the arguments of GroupRead.
        batch_rows_max: number of rows of an import in one transaction.
        threads: makes the threads.

    """
    rate_limit = RatePerToken(settings.rate_per_token, monotonic)
    authenticator = Authenticator(
        store,
        clock,
        monotonic,
        rate_limit,
        observe,
        public_read=settings.public_read,
        threads=threads,
    )
    writer = make_writer(store, observe=observe, monotonic=monotonic, threads=threads)
    reader = make_reader(store, observe=observe, threads=threads)
    keeps_changes = settings.changes_keep > 0
    bulk = BulkChanges(
        authenticator,
        writer,
        reader,
        keeps_changes=keeps_changes,
        patience_seconds=settings.request_seconds,
        release_memory=release_memory,
        batch_rows_max=batch_rows_max,
        threads=threads,
    )
    return Parts(
        authenticator=authenticator,
        writer=writer,
        reader=reader,
        plants=Plants(writer, reader, keeps_changes=keeps_changes),
        web=load_web(is_public=settings.public_read),
        ids=Ids(store, observe=observe, threads=threads),
        bulk=bulk,
        imports=FileImports(
            authenticator,
            bulk,
            patience_seconds=settings.request_seconds,
            observe=observe,
            monotonic=monotonic,
        ),
        undos=Undos(bulk, reader, store, observe=observe),
        exports=Exports(
            authenticator,
            store,
            observe=observe,
            monotonic=monotonic,
            threads=threads,
        ),
        changes=ChangeFeed(
            authenticator,
            reader,
            Tail(store, observe=observe, threads=threads),
            monotonic=monotonic,
        ),
        readiness=Readiness(store, writer, observe=observe, monotonic=monotonic),
        metrics=Measurements(render_metrics, monotonic=monotonic),
    )


def make_server(settings: Settings, parts: Parts, observe: Observer) -> Server:
    """Make the server of the parts, with the limits of its connections."""
    cross_origin = CrossOrigin(settings.allow_origin) if settings.allow_origin else None
    return Server(
        application=App(parts, cross_origin=cross_origin, observe=observe),
        request_seconds=settings.request_seconds,
        idle_seconds=settings.idle_seconds,
        stop_seconds=settings.stop_seconds,
        connections_max=connections_max(),
        proxies=TrustedProxies(settings.trusted_proxy),
        budget=Budget(),
        observe=observe,
    )


@asynccontextmanager
async def running(parts: Parts) -> AsyncIterator[None]:
    """Run the parts that have threads, on the running event loop."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(parts.exports.close)
        stack.push_async_callback(parts.bulk.close)
        for part in (parts.ids.batcher, parts.writer, parts.reader, parts.changes.tail):
            await stack.enter_async_context(part.running())
        yield


def tls_context(settings: Settings) -> ssl.SSLContext | None:
    """Load the certificate and its key, if the settings have one.

    Raises:
        OSError: they cannot be used.

    """
    if settings.tls_certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    # Without a password, OpenSSL would ask for the passphrase of a key on the terminal.
    context.load_cert_chain(settings.tls_certificate, settings.tls_key, password=lambda: "")
    return context


def run_service(
    settings: Settings,
    store: Store,
    build: Callable[[], Parts],
    observe: Observer,
    listener: socket.socket,
) -> None:
    """Serve until a signal stops this process. The store is closed."""
    is_worker = settings.workers > 1
    signals = StopSignals(is_worker=is_worker)  # before a part has threads
    parts = build()
    server, context = make_server(settings, parts, observe), tls_context(settings)

    async def run() -> None:
        freeze_memory()
        loop, stopping = asyncio.get_running_loop(), asyncio.Event()
        loop.set_default_executor(THREADS.pool(OTHER_THREADS, "other"))

        def begin_stop() -> None:
            parts.readiness.stop()
            parts.changes.stop()
            observe(Stopping())
            # Load balancers notice that it is not ready, while it continues to serve.
            loop.call_later(settings.drain_seconds, stopping.set)

        with closing(store):
            async with running(parts):
                observe(Started())
                signals.on_first(partial(loop.call_soon_threadsafe, begin_stop))
                if is_worker:
                    report_to_parent()
                await serve(server, listener, context, stopping)
            observe(Stopped())

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


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


def run_process(
    settings: Settings,
    store: Store,
    telemetry: Telemetry,
    listener: socket.socket,
    turnstile: AbstractContextManager[object] = NO_TURNSTILE,
) -> None:
    """Serve with the store that this process has opened, and what its writer enters."""
    observe, metrics = telemetry.observe, telemetry.metrics

    def build() -> Parts:
        parts = make_parts(
            settings,
            store,
            observe=observe,
            render_metrics=metrics.render,
            make_writer=partial(GroupCommit, turnstile=turnstile),
        )
        metrics.watch_queue("changes", lambda: parts.writer.waiting)
        metrics.watch_queue("reads", lambda: parts.reader.waiting)
        metrics.watch_queue("streams", lambda: parts.changes.limit.running)
        return parts

    run_service(settings, store, build, observe, listener)
