"""Wires one process of the service from its settings and its store.

`serve` runs it. The tests and the benchmarks run it too, with another clock or writer.
"""

import time
from collections.abc import Callable
from dataclasses import dataclass

from plantstore.api.app import create_app
from plantstore.api.auth import Gate, RatePerToken
from plantstore.api.errors import render_error
from plantstore.api.exchange import ASGIApp
from plantstore.api.exports import Exports
from plantstore.api.ids import Ids
from plantstore.api.imports import Imports
from plantstore.api.operations import Readiness, Renderings
from plantstore.api.pages import Pages
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.observe import Observer, Stopping
from plantstore.server.budget import Budget
from plantstore.server.interface import Bounds, Handover
from plantstore.server.shutdown import Shutdown
from plantstore.server.workers import release_memory
from plantstore.settings import Settings
from plantstore.store import PlantWrites, Store


@dataclass(frozen=True, slots=True)
class Wired:
    """The application of one process, and its parts."""

    app: ASGIApp
    writer: GroupCommit
    reader: GroupRead
    ids: Ids
    gate: Gate
    readiness: Readiness
    handover: Handover


def wire(
    settings: Settings,
    store: Store,
    *,
    observe: Observer,
    metrics: Renderings,
    clock: Callable[[], float] = time.time,
    monotonic: Callable[[], float] = time.monotonic,
    writes: PlantWrites | None = None,
    make_writer: Callable[..., GroupCommit] = GroupCommit,
    make_reader: Callable[..., GroupRead] = GroupRead,
) -> Wired:
    """Wire one process.

    Args:
        settings: of the service.
        store: the application closes it when the server stops.
        observe: gets the events.
        metrics: the functions that render the metrics.
        clock: returns seconds since 1970; tokens expire by it.
        monotonic: a clock in seconds that never goes back.
        writes: what writes the plants, if it is not the store.
        make_writer: makes the writer, with the arguments of GroupCommit.
        make_reader: makes the reader, with the arguments of GroupRead.

    """
    writes = store if writes is None else writes
    writer = make_writer(writes, observe=observe, monotonic=monotonic)
    reader = make_reader(store, observe=observe)
    gate = Gate(
        store,
        clock=clock,
        monotonic=monotonic,
        rate_limit=RatePerToken(settings.rate_per_token),
        observe=observe,
    )
    readiness = Readiness(writes, writer, observe=observe, monotonic=monotonic)

    def on_stop() -> None:
        readiness.stop()
        observe(Stopping())

    ids = Ids(gate, writes, observe=observe)
    imports = Imports(
        gate,
        writer,
        patience_seconds=settings.request_seconds,
        observe=observe,
        release_memory=release_memory,
        monotonic=monotonic,
    )
    exports = Exports(gate, store, seconds_max=settings.export_seconds_max, monotonic=monotonic)
    handover = Handover(_bounds(settings), render_error, observe)
    app = create_app(
        store=store,
        writer=writer,
        reader=reader,
        gate=gate,
        readiness=readiness,
        metrics=metrics,
        handover=handover,
        ids=ids,
        imports=imports,
        exports=exports,
        pages=Pages() if settings.page else None,
        observe=observe,
        on_startup=Shutdown(settings.drain_seconds, on_stop).take_over,
        allow_origins=settings.allow_origin or (),
    )
    return Wired(app, writer, reader, ids, gate, readiness, handover)


def _bounds(settings: Settings) -> Bounds:
    return Bounds(
        request_seconds=settings.request_seconds,
        idle_seconds=settings.idle_seconds,
        connections_max=settings.connections_max,
        budget=Budget(),
    )
