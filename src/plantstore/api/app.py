"""The application, composed from what it is given."""

import asyncio
import gc
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from falcon.asgi import App, Request, Response
from falcon.routing import CompiledRouter

from plantstore.api.auth import Gate
from plantstore.api.errors import handle_errors
from plantstore.api.exchange import ASGIApp, Event, Exchange
from plantstore.api.limits import BOUNDS, Bounds
from plantstore.api.openapi import Document
from plantstore.api.operations import Liveness, Measurements, Readiness, Renderings
from plantstore.api.pages import ASSETS_TEMPLATE, Pages
from plantstore.api.plants import Plants
from plantstore.observe import AnswerObserver, Observer
from plantstore.reader import GroupRead
from plantstore.store import Store
from plantstore.writer import GroupCommit

# Threads for what waits for the store and is neither a change nor a read of plants.
LOOKUP_THREADS_MAX: Final = 4


def create_app(
    *,
    store: Store,
    writer: GroupCommit,
    reader: GroupRead,
    gate: Gate,
    readiness: Readiness,
    metrics: Renderings,
    bounds: Bounds,
    body_bytes_max: int,
    pages: Pages | None,
    observe: Observer,
    observe_answer: AnswerObserver,
    on_startup: Callable[[], None],
) -> ASGIApp:
    """Compose the ASGI application, with pages for a browser unless they are None.

    When the server starts, it starts writer and reader, leaves the bounds to the
    server's connections, and calls `on_startup`; when the server stops, it closes
    writer, reader and store.
    """
    lifespan = _Lifespan(writer, reader, store, bounds, on_startup)
    app: App[Request, Response] = App(middleware=[lifespan], router=Router())
    handle_errors(app, observe)
    plants = Plants(gate, writer, reader, body_bytes_max)
    resources = {
        "/plants": plants,
        "/openapi.json": Document(),
        "/healthz": Liveness(),
        "/readyz": readiness,
        "/metrics": Measurements(gate, metrics),
    }
    app.add_route("/plants/{id}", plants, suffix="one")
    templates = {"/plants/": "/plants/{id}"}
    if pages is not None:
        resources |= pages.documents
        app.add_route(ASSETS_TEMPLATE, pages.assets)
        templates[f"/assets/{pages.assets.digest}/"] = ASSETS_TEMPLATE
    for path, resource in resources.items():
        app.add_route(path, resource)
    return Exchange(
        app,
        paths={*resources},
        templates=templates,
        is_full=writer.is_full,
        observe=observe,
        observe_answer=observe_answer,
    )


class Router(CompiledRouter):
    """Falcon's router, which takes `//plants` for `/plants`; here it is another path."""

    def find(self, uri: str, req: Any = None) -> Any:  # noqa: ANN401 (Falcon's)
        """Return what serves a path; None if nothing does."""
        return None if uri.startswith("//") else super().find(uri, req)


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

    async def process_startup(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        scope["state"][BOUNDS] = self._bounds
        # What lives now lives as long as the process. Each full collection would walk it
        # all again, and make every caller of that moment wait for some ten milliseconds.
        gc.collect()
        gc.freeze()
        # Nor does what a request or a connection leaves behind need the collector: nothing of
        # it refers to itself. It still looks, for what nobody foresaw, but a thirtieth as often.
        gc.set_threshold(20_000, 20, 100)
        # Look-ups of tokens, probes, metrics: short, and serialized by the store anyway.
        executor = ThreadPoolExecutor(LOOKUP_THREADS_MAX, thread_name_prefix="lookup")
        asyncio.get_running_loop().set_default_executor(executor)
        self._reader.start()
        self._writer.start()
        self._on_startup()

    async def process_shutdown(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        await self._reader.close()
        await self._writer.close()
        self._store.close()
