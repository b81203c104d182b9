"""Composes the ASGI application from its parts."""

import asyncio
import gc
from collections.abc import Callable, Collection
from concurrent.futures import ThreadPoolExecutor
from typing import Final

from falcon.asgi import App, Request, Response
from falcon.routing import CompiledRouter

from plantstore.api.auth import Gate, OwnToken
from plantstore.api.compression import Compressor
from plantstore.api.cors import CrossOrigin
from plantstore.api.errors import handle_errors
from plantstore.api.exchange import ASGIApp, Event, Exchange, NoteAnswer
from plantstore.api.exports import Exports
from plantstore.api.files import PlantFile
from plantstore.api.ids import Ids
from plantstore.api.imports import Imports
from plantstore.api.operations import Liveness, Measurements, Readiness, Renderings
from plantstore.api.pages import ASSETS_TEMPLATE, Document, Pages, Redirect
from plantstore.api.plants import OnePlant, Plants
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.formats import FORMATS
from plantstore.observe import Observer
from plantstore.server.interface import HANDOVER, Handover
from plantstore.store import Store

# Threads for all calls of the store that neither change nor read plants.
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
    ids: Ids,
    imports: Imports,
    exports: Exports,
    pages: Pages | None,
    observe: Observer,
    on_startup: Callable[[], None],
    allow_origins: Collection[str] = (),
) -> ASGIApp:
    """Compose the ASGI application, with pages for browsers unless `pages` is None.

    When the server starts, the application starts `writer`, `reader` and `ids`, gives `handover`
    to the server's connections, and calls `on_startup`. When the server stops, the application
    closes them and `store`.

    Web pages of the origins in `allow_origins` may call the service from a browser.

    Raises:
        UsageError: an origin is malformed.

    """
    lifespan = _Lifespan(
        writer=writer,
        reader=reader,
        ids=ids,
        imports=imports,
        exports=exports,
        store=store,
        handover=handover,
        on_startup=on_startup,
    )
    router = CompiledRouter()
    app: App[Request, Response] = App(middleware=[lifespan, NoteAnswer()], router=router)
    handle_errors(app, observe)
    compressor = Compressor()
    resources = {
        "/plants": Plants(gate=gate, writer=writer, reader=reader, compressor=compressor),
        "/plants/{id}": OnePlant(gate=gate, writer=writer, reader=reader),
        "/ids": ids,
        "/token": OwnToken(gate),
        "/openapi.json": Document(),
        "/healthz": Liveness(),
        "/readyz": readiness,
        "/metrics": Measurements(gate, metrics, compressor),
    }
    for suffix in ("csv", "ndjson"):
        name = f"plants.{suffix}"
        resources[f"/{name}"] = PlantFile(
            gate=gate, name=name, form=FORMATS[suffix], imports=imports, exports=exports
        )
    if pages is not None:
        resources |= pages.documents | {"/docs/": Redirect("../docs")}
        app.add_route(ASSETS_TEMPLATE, pages.assets)
    for path, resource in resources.items():
        app.add_route(path, resource)
    served: ASGIApp = Exchange(app, router=router, is_full=writer.is_full, observe=observe)
    return CrossOrigin(served, allow_origins) if allow_origins else served


class _Lifespan:
    """Starts the parts of the application with the server, and stops them with it."""

    def __init__(
        self,
        *,
        writer: GroupCommit,
        reader: GroupRead,
        ids: Ids,
        imports: Imports,
        exports: Exports,
        store: Store,
        handover: Handover,
        on_startup: Callable[[], None],
    ) -> None:
        self._writer = writer
        self._reader = reader
        self._ids = ids
        self._imports = imports
        self._exports = exports
        self._store = store
        self._handover = handover
        self._on_startup = on_startup

    async def process_startup(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        scope["state"][HANDOVER] = self._handover
        # The objects that exist now live as long as the process. Each full collection would
        # visit all of them again, and delay the current requests by some ten milliseconds.
        gc.collect()
        gc.freeze()
        # Requests and connections leave no reference cycles behind, so they do not need the
        # collector either. It still runs, for unexpected cycles, but a thirtieth as often.
        gc.set_threshold(20_000, 20, 100)
        # For lookups of tokens, probes and metrics. They are short, and the store runs most of
        # them one after the other anyway.
        executor = ThreadPoolExecutor(LOOKUP_THREADS_MAX, thread_name_prefix="lookup")
        asyncio.get_running_loop().set_default_executor(executor)
        self._reader.start()
        self._writer.start()
        self._ids.start()
        self._on_startup()

    async def process_shutdown(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        await self._reader.close()
        await self._writer.close()
        await self._ids.close()
        await self._imports.close()
        await self._exports.close()
        self._store.close()
