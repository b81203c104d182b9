"""Handles the cases of requests and responses that Falcon does not handle."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final, TypeAlias

from falcon.asgi import App, Request, Response
from falcon.routing import CompiledRouter

from plantstore.api.errors import nothing_here, render_error
from plantstore.errors import (
    ErrorCode,
    InternalError,
    RequestError,
    StoreUnavailableError,
)
from plantstore.observe import (
    Answered,
    ExportCutOff,
    Observer,
    ReadFailed,
    RequestFailed,
    RequestRefused,
)
from plantstore.server.interface import ABORT, ANSWERED, FAILED, IS_CLIENT_GONE
from plantstore.tracing import REQUEST_ID_FIELD

Scope: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# The key of the route in the scope of a request: a template, or empty if there is no resource.
ROUTE: Final = "plantstore.route"

# An export adds itself to the scope with this key. Its response may have begun, and cannot become
# an error.
EXPORTED: Final = "plantstore.exported"

# The status if the client disconnected before the response. It is a convention of servers.
CLIENT_GONE: Final = 499

# Stands for the rest of a body that is not valid.
_ALREADY_FAILED: Final[Event] = {"type": "http.request", "body": b""}

# Methods that change nothing, so they do not wait for a commit (RFC 9110 §9.2.1).
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

# Created only once: an overloaded service refuses many requests.
_OVERLOADED: Final = RequestError(ErrorCode.OVERLOADED, "Too many requests wait; nothing was done")
_STOPPING: Final = RequestError(
    ErrorCode.STORE_UNAVAILABLE,
    "The service is stopping; a change may or may not be made, and sending it again is safe",
)


def require_client(req: Request) -> None:
    """Check that the client of a request is still connected.

    Raises:
        RequestError: it is not. Nobody gets the response.

    """
    is_client_gone = req.scope.get(IS_CLIENT_GONE)
    if is_client_gone is not None and is_client_gone():
        raise _client_gone(req.scope)


def _client_gone(scope: Scope) -> RequestError:
    scope.setdefault(ANSWERED, CLIENT_GONE)
    return RequestError(ErrorCode.BAD_REQUEST, "The body is truncated")


class NoteAnswer:
    """Middleware that records the route and the status of each response."""

    async def process_response(
        self,
        req: Request,
        resp: Response,
        resource: object,  # noqa: ARG002 (the signature is Falcon's)
        req_succeeded: bool,  # noqa: ARG002, FBT001
    ) -> None:
        """Record them in the scope, unless another response was sent or the client is gone."""
        scope = req.scope
        scope[ROUTE] = req.uri_template or ""
        if ANSWERED not in scope:
            scope[ANSWERED] = resp.status_code


class Exchange:
    """Wraps Falcon, and changes its behaviour in these cases.

    - Falcon waits for the first piece of the body before it chooses the route. This class gives
      it an empty piece first. So a wrong path, method or token is refused without the body, and
      before the client is told to continue (RFC 9110 §10.1.1).
    - Falcon treats a truncated body as complete. This class raises an error.
    - Falcon does not catch a cancellation. uvicorn cancels the requests that are unfinished at
      the end of the shutdown timeout. This class answers them.
    - Falcon treats `//plants` as `/plants`. This class responds with 404.
    - This class reports each response to the observer, with the route and the status that
      `NoteAnswer` recorded.

    Args:
        app: the Falcon application. `NoteAnswer` is its middleware.
        router: of the app.
        is_full: whether a change would be refused now. If so, changes are refused before
            their token and body are read. This takes less than half of the time, so refused
            clients do not delay the others.
        observe: is called for each response, and for each refusal.

    """

    def __init__(
        self,
        app: App[Request, Response],
        *,
        router: CompiledRouter,
        is_full: Callable[[], bool],
        observe: Observer,
    ) -> None:
        self._app = app
        self._router = router
        self._is_full = is_full
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or ASGI's lifespan events (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        if scope["method"] not in _SAFE_METHODS and self._is_full():
            await self._refuse(_OVERLOADED, scope, send)
        elif scope["path"].startswith("//"):
            await self._refuse(nothing_here(), scope, send)
        else:
            await self._serve(scope, receive, send)
        seconds = perf_counter() - began
        self._observe(Answered(scope, scope[ROUTE], scope[ANSWERED], seconds))

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def receive_after_nothing() -> Event:
            nonlocal started
            if not started:
                started = True
                return {"type": "http.request", "body": b"", "more_body": True}
            event = _ALREADY_FAILED if FAILED in scope else await receive()
            if event["type"] == "http.disconnect":
                raise _client_gone(scope)
            if not event["body"] and FAILED in scope:
                raise scope[FAILED]
            return event

        if scope["method"] == "OPTIONS":
            send = _without_content_type(send)
        try:
            await self._app(scope, receive_after_nothing, send)
        except (Exception, asyncio.CancelledError) as error:  # noqa: BLE001 (see below)
            await self._end_failed(error, scope, send)

    async def _end_failed(
        self, error: Exception | asyncio.CancelledError, scope: Scope, send: Send
    ) -> None:
        """End a request after an error that Falcon did not answer."""
        if EXPORTED in scope:
            await self._end_export(error, scope, send)
        elif isinstance(error, ConnectionResetError):  # the client did not wait for the response
            return
        elif isinstance(error, asyncio.CancelledError):
            await self._refuse(_STOPPING, scope, send)
        else:  # for example, a response that cannot be written
            await self._refuse(InternalError(), scope, send, error)

    async def _end_export(
        self, error: Exception | asyncio.CancelledError, scope: Scope, send: Send
    ) -> None:
        """Cut an export off. Its client learns that it is incomplete."""
        if isinstance(error, RequestError) and not isinstance(error, StoreUnavailableError):
            self._observe(ExportCutOff(error))
        elif not isinstance(error, asyncio.CancelledError | ConnectionResetError):
            self._observe(ReadFailed(error, 1))
        try:
            await send(ABORT)
        finally:
            await scope[EXPORTED].close()

    async def _refuse(
        self, error: RequestError, scope: Scope, send: Send, cause: Exception | None = None
    ) -> None:
        """Respond with an error, without Falcon."""
        answer = render_error(error, scope["headers"])
        self._observe(RequestRefused(error.code))
        path = scope["path"]
        if cause is not None:
            id_ = answer.headers[REQUEST_ID_FIELD]
            self._observe(RequestFailed(cause, scope["method"], scope["raw_path"].decode(), id_))
        found = None if path.startswith("//") else self._router.find(path)
        scope[ROUTE] = found[3] if found else ""
        scope[ANSWERED] = answer.status
        start = {"type": "http.response.start", "status": answer.status}
        await send(start | {"headers": answer.fields()})
        await send({"type": "http.response.body", "body": answer.body})


def _without_content_type(send: Send) -> Send:
    """Return a `send` that removes the content type that Falcon adds even to an empty 200."""

    async def send_rest(event: Event) -> None:
        if event["type"] == "http.response.start" and event["status"] == HTTPStatus.OK:
            headers = [field for field in event["headers"] if field[0] != b"content-type"]
            event = {**event, "headers": headers}
        await send(event)

    return send_rest
