"""The ASGI application: which resource answers at which address, and what Falcon does not do."""

import asyncio
from collections.abc import Callable, Collection
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from time import perf_counter
from typing import Any, Final

from falcon.asgi import App, Request, Response
from falcon.routing import CompiledRouter

from plantstore.api.auth import Authenticator, OwnToken
from plantstore.api.change_feed import Changes
from plantstore.api.cors import CrossOrigin
from plantstore.api.error_responses import handle_errors
from plantstore.api.exports import Exports
from plantstore.api.file_imports import Imports
from plantstore.api.ids import Ids
from plantstore.api.operations import Liveness, Measurements, Readiness
from plantstore.api.parameters import MERGE_PATCH
from plantstore.api.resources import OnePlant, Plants
from plantstore.api.static_files import pages
from plantstore.api.tags import Tags
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.errors import ErrorCode, InternalError, RequestError
from plantstore.formats import FORMATS, Format
from plantstore.observe import REQUEST_ID_FIELD, Observer, RequestFailed, RequestRefused, Responded
from plantstore.server.interface import (
    CONNECTION_CONFIG,
    RESPONSE_STATUS,
    ASGIApp,
    ConnectionConfig,
    Event,
    Receive,
    RenderError,
    Scope,
    Send,
)

# The key of the route in the scope of a request: a template. It is missing if there is no resource.
ROUTE: Final = "plantstore.route"

# The status if the client disconnected before the response. It is a convention of servers.
CLIENT_GONE: Final = 499

# Methods that change nothing, so they do not wait for a commit (RFC 9110 §9.2.1).
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

# Created only once: an overloaded service refuses many requests.
_OVERLOADED: Final = RequestError(ErrorCode.OVERLOADED, "Too many requests wait; nothing was done")
_STOPPING: Final = RequestError(
    ErrorCode.STORE_UNAVAILABLE,
    "The service is stopping; a change may or may not be made, and sending it again is safe",
)


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
    resources: dict[str, object] = {
        **pages(is_public=bool(authenticator.public_scopes)),
        "/plants": Plants(authenticator, writer, reader),
        "/plants/{id}": OnePlant(authenticator, writer, reader),
        "/tags": Tags(authenticator, reader),
        "/changes": parts.changes,
        "/ids": parts.ids,
        "/token": OwnToken(authenticator),
        "/healthz": Liveness(),
        "/readyz": parts.readiness,
        "/metrics": parts.metrics,
    }
    for suffix in ("csv", "ndjson"):
        name = f"plants.{suffix}"
        resources[f"/{name}"] = _PlantFile(parts.imports, parts.exports, FORMATS[suffix], name)
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


class Router(CompiledRouter):
    """Falcon's router, which notes the route, and takes no path for another one.

    `//plants` is not `/plants`, and `/plants/` has no id.
    """

    def __init__(self) -> None:
        super().__init__()
        self._constant: dict[str, Any] = {}  # the routes without parameters, by their paths

    def map_http_methods(self, resource: object, **kwargs: Any) -> dict[str, Any]:  # noqa: ANN401 (Falcon's)
        """Return the responders of a resource; that of OPTIONS names all methods, itself too."""
        responders: dict[str, Any] = super().map_http_methods(resource, **kwargs)
        fields = {"Allow": ", ".join(sorted({*responders, "OPTIONS"}))}
        if "PATCH" in responders:
            fields["Accept-Patch"] = MERGE_PATCH  # RFC 5789 §3.1

        async def respond(_req: Request, resp: Response, **_parameters: str) -> None:
            resp.set_headers(fields)

        return responders | {"OPTIONS": respond}

    def find(self, uri: str, req: Any = None) -> Any:  # noqa: ANN401 (Falcon's)
        """Return the resource of a path; None if there is none."""
        found = self._constant.get(uri)
        if found is None and not uri.startswith("//"):
            found = super().find(uri)
            if found is not None and found[3] == uri:
                self._constant[uri] = found
            elif uri.endswith("/"):
                return None
        if found is not None and req is not None:
            req.scope[ROUTE] = found[3]
        return found


class Service:
    """Wraps Falcon, and does what it does not do.

    - While the queue of changes is full, it refuses changes.
    - It answers errors that Falcon does not catch: a response that cannot be sent, and the
      cancellation at the end of the shutdown timeout.
    - It reports each response to the observer.

    Args:
        app: the Falcon application.
        router: of the app.
        is_full: whether a change would be refused now. If so, changes are refused before
            their token and body are read. This takes less than half of the time, so refused
            clients do not delay the others.
        render_error: renders the errors that Falcon does not get.
        observe: is called for each response, and for each refusal.

    """

    def __init__(
        self,
        app: App[Request, Response],
        *,
        router: Router,
        is_full: Callable[[], bool],
        render_error: RenderError,
        observe: Observer,
    ) -> None:
        self._app = app
        self._router = router
        self._is_full = is_full
        self._render_error = render_error
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or ASGI's lifespan events (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        try:
            if scope["method"] not in _SAFE_METHODS and self._is_full():
                if (found := self._router.find(scope["path"])) is not None:
                    scope[ROUTE] = found[3]
                await self._refuse(_OVERLOADED, scope, send)
            else:
                await self._app(scope, receive, send)
        except ConnectionError:
            raise  # the server cuts the response off
        except asyncio.CancelledError:
            await self._refuse(_STOPPING, scope, send)
        except Exception as error:  # noqa: BLE001
            await self._refuse(InternalError(), scope, send, error)
        finally:
            seconds = perf_counter() - began
            status = scope.get(RESPONSE_STATUS, CLIENT_GONE)
            self._observe(Responded(scope, scope.get(ROUTE, ""), status, seconds))

    async def _refuse(
        self, error: RequestError, scope: Scope, send: Send, cause: Exception | None = None
    ) -> None:
        """Respond with an error, without Falcon."""
        response = self._render_error(error, scope["headers"])
        if cause is not None:
            id_ = response.headers[REQUEST_ID_FIELD]
            self._observe(RequestFailed(cause, scope["method"], scope["raw_path"].decode(), id_))
        start = {"type": "http.response.start", "status": response.status}
        await send(start | {"headers": response.fields()})
        self._observe(RequestRefused(error.code, scope.get("client")))
        await send({"type": "http.response.body", "body": response.body})
