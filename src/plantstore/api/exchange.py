"""A request and its answer, at the edges that Falcon leaves open."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from http import HTTPStatus
from time import perf_counter
from typing import Any, Final, TypeAlias

from falcon.asgi import App, Request, Response
from falcon.routing import CompiledRouter

from plantstore.api.errors import nothing_here, render_error
from plantstore.errors import ErrorCode, InternalError, RequestError
from plantstore.observe import Answered, Observer, RequestFailed, RequestRefused
from plantstore.server.interface import ANSWERED
from plantstore.tracing import REQUEST_ID_FIELD

Scope: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# The key of the route in the scope of a request: a template, or empty if nothing is there.
ROUTE: Final = "plantstore.route"

# The status, by a convention of servers, of who went away before the answer.
CLIENT_GONE: Final = 499

# What changes nothing, and so waits for no commit (RFC 9110 §9.2.1).
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})

# Made once: a service that has too much to do has many to refuse.
_OVERLOADED: Final = RequestError(ErrorCode.OVERLOADED, "Too many requests wait; nothing was done")
_STOPPING: Final = RequestError(
    ErrorCode.STORE_UNAVAILABLE,
    "The service is stopping; a change may or may not be made, and sending it again is safe",
)


class NoteAnswer:
    """Middleware that notes the route and the status of each answer, whatever a handler does."""

    async def process_response(
        self,
        req: Request,
        resp: Response,
        resource: object,  # noqa: ARG002 (the signature is Falcon's)
        req_succeeded: bool,  # noqa: ARG002, FBT001
    ) -> None:
        """Note them in the scope, unless the client was told something else, or is gone."""
        scope = req.scope
        scope[ROUTE] = req.uri_template or ""
        if ANSWERED not in scope:
            scope[ANSWERED] = resp.status_code


class Exchange:
    """What stands around Falcon.

    - Falcon waits for the first piece of the body, and only then routes. Here it is given an
      empty one, so that a path, a method or a token is refused without the body, and before a
      client is told to continue (RFC 9110 §10.1.1).
    - To Falcon, a truncated body is a body that ended. Here it is an error.
    - Falcon does not catch a cancellation, which is how uvicorn ends the requests that a stop
      has no more time for. Here they are answered.
    - To Falcon, `//plants` is `/plants`. Here nothing is there.
    - Each answer is told to the observer, with the route and the status that `NoteAnswer` left.

    Args:
        app: what serves requests. `NoteAnswer` is its middleware.
        router: of the app.
        is_full: whether a change would be refused now. Then it is refused before its
            token and its body are looked at, for less than half of what that would
            cost: clients that are served do not wait for those that are refused.
        observe: is told of each answer, and of what is refused here.

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
        """Serve a request, or the life of the server (ASGI 3)."""
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
            event = await receive()
            if event["type"] == "http.disconnect":
                scope.setdefault(ANSWERED, CLIENT_GONE)
                raise RequestError(ErrorCode.BAD_REQUEST, "The body broke off")
            return event

        if scope["method"] == "OPTIONS":
            send = _without_content_type(send)
        try:
            await self._app(scope, receive_after_nothing, send)
        except asyncio.CancelledError:
            await self._refuse(_STOPPING, scope, send)
        except Exception as error:  # noqa: BLE001 (an answer that cannot be written, say)
            await self._refuse(InternalError(), scope, send, error)

    async def _refuse(
        self, error: RequestError, scope: Scope, send: Send, cause: Exception | None = None
    ) -> None:
        """Answer a request without Falcon."""
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
    """Return what sends a 200 without the content type that Falcon gives even an empty answer."""

    async def send_rest(event: Event) -> None:
        if event["type"] == "http.response.start" and event["status"] == HTTPStatus.OK:
            headers = [field for field in event["headers"] if field[0] != b"content-type"]
            event = {**event, "headers": headers}
        await send(event)

    return send_rest
