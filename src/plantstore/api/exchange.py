"""A request and its answer, at the edges that Falcon leaves open."""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from time import perf_counter
from typing import Any, TypeAlias

from falcon.asgi import App, Request, Response

from plantstore.api.errors import ANSWERED, RETRY_AFTER_SECONDS, STATUS, render_error
from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import AnswerObserver, Observer, RequestRefused
from plantstore.tracing import REQUEST_ID_FIELD, request_id

Scope: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


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
    """

    def __init__(
        self,
        app: App[Request, Response],
        routes: Collection[str],
        observe: Observer,
        observe_answer: AnswerObserver,
    ) -> None:
        self._app = app
        self._observe = observe
        self._observe_answer = observe_answer
        self._routes = frozenset(routes)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the life of the server (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        began = perf_counter()
        started = False

        async def receive_after_nothing() -> Event:
            nonlocal started
            if not started:
                started = True
                return {"type": "http.request", "body": b"", "more_body": True}
            event = await receive()
            if event["type"] == "http.disconnect":
                raise RequestError(ErrorCode.BAD_REQUEST, "The body broke off")
            return event

        try:
            await self._app(scope, receive_after_nothing, send)
        except asyncio.CancelledError:
            self._observe(RequestRefused(ErrorCode.STORE_UNAVAILABLE))
            scope[ANSWERED] = STATUS[ErrorCode.STORE_UNAVAILABLE].value
            await _answer_stopping(scope, send)
        path = scope["path"]
        route = path if path in self._routes else self._route(path)
        seconds = perf_counter() - began
        self._observe_answer(scope, route, scope.get(ANSWERED, 200), seconds)

    def _route(self, path: str) -> str:
        """Return the template that a path is of, or nothing."""
        # All fields are ids, and stand at the end.
        template = f"{path[: path.rfind('/')]}/{{id}}"
        return template if template in self._routes else ""


async def _answer_stopping(scope: Scope, send: Send) -> None:
    body = render_error(
        ErrorCode.STORE_UNAVAILABLE,
        "The service is stopping; a change may or may not be made, and sending it again is safe",
    )
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"%d" % RETRY_AFTER_SECONDS),
        (REQUEST_ID_FIELD.lower().encode(), request_id(scope["headers"]).encode()),
    ]
    status = STATUS[ErrorCode.STORE_UNAVAILABLE]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
