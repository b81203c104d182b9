"""The application, composed from what it is given."""

import asyncio
import gc
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from falcon.asgi import App, Request, Response
from falcon.routing import CompiledRouter

from plantstore.api.auth import Gate
from plantstore.api.compression import Compressor
from plantstore.api.cors import CrossOrigin
from plantstore.api.errors import handle_errors
from plantstore.api.exchange import ASGIApp, Event, Exchange, NoteAnswer
from plantstore.api.forwarded import TrustedProxies
from plantstore.api.openapi import Document
from plantstore.api.operations import Liveness, Measurements, Readiness, Renderings
from plantstore.api.pages import ASSETS_TEMPLATE, Pages, Redirect
from plantstore.api.plants import Plants
from plantstore.observe import Observer
from plantstore.reader import GroupRead
from plantstore.server.interface import HANDOVER, Handover
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
    handover: Handover,
    body_bytes_max: int,
    pages: Pages | None,
    observe: Observer,
    on_startup: Callable[[], None],
    allow_origins: Collection[str] = (),
    trusted_proxies: Collection[str] = (),
) -> ASGIApp:
    """Compose the ASGI application, with pages for a browser unless they are None.

    When the server starts, it starts writer and reader, leaves the handover to the
    server's connections, and calls `on_startup`; when the server stops, it closes
    writer, reader and store.

    Pages of the origins in `allow_origins` may call it from a browser. Of the proxies in
    `trusted_proxies`, addresses or networks, it learns who the clients are.

    Raises:
        UsageError: one of these is no origin, or no address.

    """
    lifespan = _Lifespan(writer, reader, store, handover, on_startup)
    router = CompiledRouter()
    app: App[Request, Response] = App(middleware=[lifespan, NoteAnswer()], router=router)
    handle_errors(app, observe)
    compressor = Compressor()
    plants = Plants(gate, writer, reader, compressor, body_bytes_max)
    resources = {
        "/plants": plants,
        "/openapi.json": Document(),
        "/healthz": Liveness(),
        "/readyz": readiness,
        "/metrics": Measurements(gate, metrics, compressor),
    }
    app.add_route("/plants/{id}", plants, suffix="one")
    if pages is not None:
        resources |= pages.documents | {"/docs/": Redirect("../docs")}
        app.add_route(ASSETS_TEMPLATE, pages.assets)
    for path, resource in resources.items():
        app.add_route(path, resource)
    served: ASGIApp = Exchange(app, router=router, is_full=writer.is_full, observe=observe)
    if allow_origins:
        served = CrossOrigin(served, allow_origins)
    return TrustedProxies(served, trusted_proxies) if trusted_proxies else served


class _Lifespan:
    """What happens when the server starts and stops."""

    def __init__(
        self,
        writer: GroupCommit,
        reader: GroupRead,
        store: Store,
        handover: Handover,
        on_startup: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._store = store
        self._handover = handover
        self._on_startup = on_startup

    async def process_startup(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        scope["state"][HANDOVER] = self._handover
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
