"""Composes the ASGI application: which resource answers at which address."""

from collections.abc import Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass

from falcon.asgi import App, Request, Response

from plantstore.api.auth import Authenticator, OwnToken
from plantstore.api.changes import Changes
from plantstore.api.cors import CrossOrigin
from plantstore.api.errors import handle_errors
from plantstore.api.exports import Exports
from plantstore.api.ids import Ids
from plantstore.api.imports import Imports
from plantstore.api.operations import Liveness, Measurements, Readiness
from plantstore.api.pages import ASSETS_TEMPLATE, Document, Pages, Redirect
from plantstore.api.plants import OnePlant, Plants
from plantstore.api.service import Router, Service
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.formats import FORMATS, Format
from plantstore.server.interface import CONNECTION_CONFIG, ASGIApp, ConnectionConfig, Event


@dataclass(frozen=True, slots=True)
class Parts:
    """What the resources are made of.

    Attributes:
        authenticator: knows the tokens.
        writer: makes changes.
        reader: reads plants.
        ids: hands out ids.
        imports: stores the plants of files.
        exports: answers with files of plants.
        changes: answers with changes, and sends streams of them.
        readiness: tells whether a plant would be stored.
        metrics: answers with the metrics.
        connection_config: for the connections of the server.

    """

    authenticator: Authenticator
    writer: GroupCommit
    reader: GroupRead
    ids: Ids
    imports: Imports
    exports: Exports
    changes: Changes
    readiness: Readiness
    metrics: Measurements
    connection_config: ConnectionConfig


def create_app(
    parts: Parts,
    lifespan: AbstractAsyncContextManager[None],
    *,
    allow_origins: Collection[str] = (),
) -> ASGIApp:
    """Compose the ASGI application.

    Args:
        parts: what the resources are made of.
        lifespan: is entered when the server starts, and left when it stops.
        allow_origins: web pages of these origins may call the service from a browser.

    Raises:
        UsageError: an origin is malformed.

    """
    authenticator, writer, reader = parts.authenticator, parts.writer, parts.reader
    resources = {
        "/plants": Plants(authenticator, writer, reader),
        "/plants/{id}": OnePlant(authenticator, writer, reader),
        "/changes": parts.changes,
        "/ids": parts.ids,
        "/token": OwnToken(authenticator),
        "/openapi.json": Document(),
        "/healthz": Liveness(),
        "/readyz": parts.readiness,
        "/metrics": parts.metrics,
    }
    for suffix in ("csv", "ndjson"):
        name = f"plants.{suffix}"
        resources[f"/{name}"] = _PlantFile(parts.imports, parts.exports, FORMATS[suffix], name)
    pages = Pages()
    resources |= pages.documents | {
        "/docs/": Redirect("../docs"),
        ASSETS_TEMPLATE: pages.assets,
    }
    config = parts.connection_config
    router = Router()
    app: App[Request, Response] = App(middleware=[_Lifespan(lifespan, config)], router=router)
    if allow_origins:
        app.add_middleware(CrossOrigin(allow_origins))
    handle_errors(app, config.observe)
    for path, resource in resources.items():
        app.add_route(path, resource)
    return Service(
        app,
        router=router,
        is_full=writer.is_full,
        render_error=config.render_error,
        observe=config.observe,
    )


class _PlantFile:
    """A file of all plants. GET exports it, and POST imports plants from it."""

    def __init__(self, imports: Imports, exports: Exports, form: Format, name: str) -> None:
        self._imports = imports
        self._exports = exports
        self._format = form
        self._name = name

    async def on_get(self, req: Request, resp: Response) -> None:
        await self._exports.run(req, resp, self._format, self._name)

    on_head = on_get

    async def on_post(self, req: Request, resp: Response) -> None:
        await self._imports.run(req, resp, self._format)


class _Lifespan:
    """Runs a context manager while the server runs, and configures the server's connections."""

    def __init__(
        self, lifespan: AbstractAsyncContextManager[None], config: ConnectionConfig
    ) -> None:
        self._lifespan = lifespan
        self._config = config

    async def process_startup(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        scope["state"][CONNECTION_CONFIG] = self._config
        await self._lifespan.__aenter__()

    async def process_shutdown(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        await self._lifespan.__aexit__(None, None, None)
