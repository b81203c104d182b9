"""The application, composed from what it is given."""

import asyncio
import gc
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeAlias

from falcon.asgi import App, Request, Response

from plantstore.api.auth import Gate
from plantstore.api.errors import RETRY_AFTER_SECONDS, STATUS, handle_errors, render_error
from plantstore.api.openapi import Document
from plantstore.api.operations import Liveness, Readiness
from plantstore.api.plants import Plants
from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import Observer
from plantstore.reader import GroupRead
from plantstore.store import Store
from plantstore.writer import GroupCommit

Scope: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


def create_app(
    *,
    store: Store,
    writer: GroupCommit,
    reader: GroupRead,
    gate: Gate,
    body_bytes_max: int,
    observe: Observer,
) -> ASGIApp:
    """Compose the ASGI application. It starts writer and reader, and closes them and the store."""
    app: App[Request, Response] = App(middleware=[_Lifespan(writer, reader, store)])
    handle_errors(app, observe)
    plants = Plants(gate, writer, reader, body_bytes_max)
    app.add_route("/plants", plants)
    app.add_route("/plants/{id}", plants, suffix="one")
    app.add_route("/openapi.json", Document())
    app.add_route("/healthz", Liveness())
    app.add_route("/readyz", Readiness(store, observe))
    return _RoutingFirst(app)


class _RoutingFirst:
    """Falcon, and what it leaves open at the edges of a request.

    It waits for the first piece of the body, and only then routes. Here it is
    given an empty one, so that a path, a method or a token is refused without the
    body, and before a client is told to continue (RFC 9110 §10.1.1).

    It takes a body that broke off for one that ended. Here that is an error.

    It lets a cancellation pass, which is how uvicorn ends the requests that a stop
    has no more time for. Here they are answered.
    """

    def __init__(self, app: App[Request, Response]) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
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
            await _answer_stopping(send)


async def _answer_stopping(send: Send) -> None:
    body = render_error(
        ErrorCode.STORE_UNAVAILABLE,
        "The service is stopping; a change may or may not be made, and sending it again is safe",
    )
    headers = [
        (b"content-type", b"application/json"),
        (b"content-length", b"%d" % len(body)),
        (b"retry-after", b"%d" % RETRY_AFTER_SECONDS),
    ]
    status = STATUS[ErrorCode.STORE_UNAVAILABLE]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


class _Lifespan:
    """What happens when the server starts and stops."""

    def __init__(self, writer: GroupCommit, reader: GroupRead, store: Store) -> None:
        self._writer = writer
        self._reader = reader
        self._store = store

    async def process_startup(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        # What lives now lives as long as the process. Each full collection would walk it
        # all again, and make every caller of that moment wait for some ten milliseconds.
        gc.collect()
        gc.freeze()
        self._reader.start()
        self._writer.start()

    async def process_shutdown(self, scope: Event, event: Event) -> None:  # noqa: ARG002
        await self._reader.close()
        await self._writer.close()
        self._store.close()
