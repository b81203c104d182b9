"""A request and its answer, at the edges that Falcon leaves open."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from time import perf_counter
from typing import Any, Final, TypeAlias

from falcon.asgi import App, Request, Response

from plantstore.api.errors import RETRY_AFTER_SECONDS, STATUS, render_error
from plantstore.api.tracing import REQUEST_ID_FIELD, parse_trace_id, request_id
from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import Observer, RequestAnswered, RequestRefused

Scope: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Where a scope has the time at which its request began, by `perf_counter`.
_BEGAN: Final = "plantstore.began"


class Exchange:
    """Falcon, mended.

    It waits for the first piece of the body, and only then routes. Here it is
    given an empty one, so that a path, a method or a token is refused without the
    body, and before a client is told to continue (RFC 9110 §10.1.1).

    It takes a body that broke off for one that ended. Here that is an error.

    It lets a cancellation pass, which is how uvicorn ends the requests that a stop
    has no more time for. Here they are answered.
    """

    def __init__(self, app: App[Request, Response], observe: Observer) -> None:
        self._app = app
        self._observe = observe

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or the life of the server (ASGI 3)."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        scope[_BEGAN] = perf_counter()
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
            await _answer_stopping(scope, send)


class Answers:
    """Falcon's middleware that tells of each answer."""

    def __init__(self, observe: Observer) -> None:
        self._observe = observe

    async def process_response(
        self,
        req: Request,
        resp: Response,
        resource: object,  # noqa: ARG002
        req_succeeded: bool,  # noqa: ARG002, FBT001 (Falcon calls it so)
    ) -> None:
        """Tell of an answer that is about to be sent."""
        scope = req.scope
        client = scope["client"]
        self._observe(
            RequestAnswered(
                method=scope["method"],
                route=req.uri_template or "",
                path=scope["raw_path"].decode(),
                status=resp.status_code,
                seconds=perf_counter() - scope[_BEGAN],
                client=client[0] if client else "",
                request_id=parse_trace_id(req.get_header("traceparent")),
            )
        )


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
