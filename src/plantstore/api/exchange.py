"""A request and its answer, at the edges that Falcon leaves open."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from time import perf_counter
from typing import Any, Final, TypeAlias

from falcon.asgi import App, Request, Response

from plantstore.api.errors import (
    ANSWERED,
    RETRY_AFTER_SECONDS,
    STATUS,
    render_error,
    retry_after_overload,
)
from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import AnswerObserver, Observer, RequestRefused
from plantstore.tracing import REQUEST_ID_FIELD, request_id

Scope: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

_REQUEST_ID_FIELD: Final = REQUEST_ID_FIELD.lower().encode()

# The status, by a convention of servers, of who went away before the answer.
CLIENT_GONE: Final = 499

# What changes nothing, and so waits for no commit (RFC 9110 §9.2.1).
_SAFE_METHODS: Final = frozenset({"GET", "HEAD", "OPTIONS", "TRACE"})


class Exchange:
    """Falcon, mended.

    It waits for the first piece of the body, and only then routes. Here it is
    given an empty one, so that a path, a method or a token is refused without the
    body, and before a client is told to continue (RFC 9110 §10.1.1).

    It takes a body that broke off for one that ended. Here that is an error.

    It lets a cancellation pass, which is how uvicorn ends the requests that a stop
    has no more time for. Here they are answered.

    And it tells of each answer. Who answers with another status than 200 leaves it in
    the scope (ANSWERED): to look into what is sent would cost each request.

    Args:
        app: what serves requests.
        paths: those that it has without fields in them.
        templates: of the others, by what stands before the last part of their paths.
        is_full: whether a change would be refused now. Then it is refused before its
            token and its body are looked at, for less than half of what that would
            cost: those who are served do not wait for those who are not.
        observe: is told what is refused here.
        observe_answer: is told of each answer.

    """

    def __init__(
        self,
        app: App[Request, Response],
        *,
        paths: Collection[str],
        templates: Mapping[str, str],
        is_full: Callable[[], bool],
        observe: Observer,
        observe_answer: AnswerObserver,
    ) -> None:
        self._app = app
        self._paths = frozenset(paths)
        self._templates = templates
        self._is_full = is_full
        self._observe = observe
        self._observe_answer = observe_answer

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the life of the server (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        if scope["method"] not in _SAFE_METHODS and self._is_full():
            await self._refuse(_OVERLOADED, retry_after_overload(), scope, send)
        else:
            try:
                await self._serve(scope, receive, send)
            except asyncio.CancelledError:
                await self._refuse(_STOPPING, RETRY_AFTER_SECONDS, scope, send)
        path = scope["path"]
        route = path if path in self._paths else self._template(path)
        seconds = perf_counter() - began
        self._observe_answer(scope, route, scope.get(ANSWERED, 200), seconds)

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

        await self._app(scope, receive_after_nothing, send)

    async def _refuse(
        self, refusal: "_Refusal", retry_after: int, scope: Scope, send: Send
    ) -> None:
        self._observe(refusal.event)
        scope[ANSWERED] = refusal.status
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(refusal.body)),
            (b"retry-after", b"%d" % retry_after),
            (_REQUEST_ID_FIELD, request_id(scope["headers"]).encode()),
        ]
        await send({"type": "http.response.start", "status": refusal.status, "headers": headers})
        await send({"type": "http.response.body", "body": refusal.body})

    def _template(self, path: str) -> str:
        """Return the template that a path is of, or nothing."""
        return self._templates.get(path[: path.rfind("/") + 1], "")


class _Refusal:
    """The answer to those whom the service has no time for, made ready."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        self.event = RequestRefused(code)
        self.status = STATUS[code].value
        self.body = render_error(code, message)


_OVERLOADED: Final = _Refusal(ErrorCode.OVERLOADED, "Too many requests wait; nothing was done")
_STOPPING: Final = _Refusal(
    ErrorCode.STORE_UNAVAILABLE,
    "The service is stopping; a change may or may not be made, and sending it again is safe",
)
