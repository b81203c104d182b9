"""The application, composed from what it is given."""

import gc
from collections.abc import Callable
from typing import Any

from falcon.asgi import App, Request, Response

from plantstore.api.auth import Gate
from plantstore.api.connection import BOUNDS, Bounds
from plantstore.api.errors import handle_errors
from plantstore.api.exchange import Answers, ASGIApp, Event, Exchange, Scope
from plantstore.api.openapi import Document
from plantstore.api.operations import Liveness, Measurements, Readiness, RenderMetrics
from plantstore.api.plants import Plants
from plantstore.observe import Observer
from plantstore.reader import GroupRead
from plantstore.store import Store
from plantstore.writer import GroupCommit


def create_app(
    *,
    store: Store,
    writer: GroupCommit,
    reader: GroupRead,
    gate: Gate,
    readiness: Readiness,
    render_metrics: RenderMetrics,
    bounds: Bounds,
    body_bytes_max: int,
    observe: Observer,
    on_startup: Callable[[], None],
) -> ASGIApp:
    """Compose the ASGI application.

    When the server starts, it starts writer and reader, leaves the bounds to the
    server's connections, and calls `on_startup`; when the server stops, it closes
    writer, reader and store.
    """
    lifespan = _Lifespan(writer, reader, store, bounds, on_startup)
    middleware: list[Any] = [lifespan, Answers(observe)]
    app: App[Request, Response] = App(middleware=middleware)
    handle_errors(app, observe)
    plants = Plants(gate, writer, reader, body_bytes_max)
    app.add_route("/plants", plants)
    app.add_route("/plants/{id}", plants, suffix="one")
    app.add_route("/openapi.json", Document())
    app.add_route("/healthz", Liveness())
    app.add_route("/readyz", readiness)
    app.add_route("/metrics", Measurements(gate, render_metrics))
    return Exchange(app, observe)


class _Lifespan:
    """What happens when the server starts and stops."""

    def __init__(
        self,
        writer: GroupCommit,
        reader: GroupRead,
        store: Store,
        bounds: Bounds,
        on_startup: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._store = store
        self._bounds = bounds
        self._on_startup = on_startup

    async def process_startup(self, scope: Scope, event: Event) -> None:  # noqa: ARG002
        scope["state"][BOUNDS] = self._bounds
        # What lives now lives as long as the process. Each full collection would walk it
        # all again, and make every caller of that moment wait for some ten milliseconds.
        gc.collect()
        gc.freeze()
        self._reader.start()
        self._writer.start()
        self._on_startup()

    async def process_shutdown(self, scope: Scope, event: Event) -> None:  # noqa: ARG002
        await self._reader.close()
        await self._writer.close()
        self._store.close()
