"""The service behind Granian, with RSGI.

    python benchmarks/rsgi.py DATABASE PORT

The store, the operations, the log and the metrics are those of `plantstore serve`. Timeouts and the
limits of connections and of memory are those of Granian.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Iterable
from functools import lru_cache
from time import perf_counter
from typing import Any, Final, Protocol, Self
from urllib.parse import quote

import uvloop
from granian.constants import Interfaces
from granian.rsgi import Scope
from granian.server.embed import Server as Granian

from plantstore.cli.serve import open_store_of
from plantstore.cli.wiring import Telemetry, make_parts, make_server, running
from plantstore.errors import ClientGoneError
from plantstore.messages import Fields, Request, Response
from plantstore.observe import Responded
from plantstore.server.connection import Server
from plantstore.server.exchange import CLIENT_GONE
from plantstore.server.http11 import render_head
from plantstore.server.process import freeze_memory, raise_file_limit, set_up_memory
from plantstore.settings import Settings
from plantstore.telemetry.log import configure_logs

# A body up to this size is read before the operation begins, which is faster.
WHOLE_BYTES_MAX: Final = 64 * 1024


class Client(Protocol):
    """How a response is sent to a server. The body of HEAD is empty."""

    async def send_whole(self, response: Response, body: bytes) -> None:
        """Send a response with a complete body."""

    async def begin(self, response: Response) -> None:
        """Send the head of a response whose body has pieces."""

    async def send_piece(self, piece: bytes) -> None:
        """Send a piece of the body."""

    async def end(self) -> None:
        """Send the end of the body."""


class Exchange:
    """A request and its response, as a connection of this service has them.

    Args:
        config: has the application, the trusted proxies and the observer.
        request: the request.
        client: gets the response.

    """

    def __init__(self, config: Server, request: Request, client: Client) -> None:
        self._config = config
        self._request = request
        self._client = client
        self._status = CLIENT_GONE

    async def run(self) -> None:
        """Respond to the request.

        Raises:
            Exception: the response has begun and cannot be completed; the server cuts it off.

        """
        request, application = self._request, self._config.application
        if self._config.proxies:
            self._config.proxies.correct(request)
        began = perf_counter()
        try:
            await self._respond(await application(request))
        except (Exception, asyncio.CancelledError) as error:
            if self._status != CLIENT_GONE:
                raise
            if not isinstance(error, ClientGoneError):
                await self._respond(application.fail(error, request))
        finally:
            self._config.observe(Responded(request, self._status, perf_counter() - began))

    async def _respond(self, response: Response) -> None:
        body, has_body = response.body, self._request.method != "HEAD"
        if isinstance(body, bytes):
            await self._client.send_whole(response, body if has_body else b"")
            self._status = response.status
            return
        async with contextlib.aclosing(body) as pieces:
            if has_body:
                async for piece in pieces:
                    await self._begin(response)
                    await self._client.send_piece(piece)
                    if self._request.is_client_gone():
                        break
        await self._begin(response)
        await self._client.end()

    async def _begin(self, response: Response) -> None:
        """Send the head, which waits for the first piece: that may fail."""
        if self._status == CLIENT_GONE:
            await self._client.begin(response)
            self._status = response.status


@lru_cache(256)
def head_fields(
    status: int, fields: tuple[tuple[str, str], ...], body_bytes: int | None
) -> list[tuple[str, str]]:
    """Return the fields of a response, with those that each response of the service has.

    Raises:
        RuntimeError: a field has a line end in it.

    """
    _, *lines, _, _ = render_head(status, fields, body_bytes).decode("latin-1").split("\r\n")
    return [(name, value) for name, _, value in (line.partition(": ") for line in lines)]


def fields_of(response: Response) -> list[tuple[str, str]]:
    """Return the fields of a response, from a cache."""
    length = len(response.body) if isinstance(response.body, bytes) else None
    return head_fields(response.status, tuple(response.fields.items()), length)


def by_name(lines: Iterable[tuple[str, str]]) -> Fields:
    """Return the fields of a request by their names."""
    fields: dict[str, str] = {}
    for name, value in lines:
        fields[name] = f"{fields[name]},{value}" if name in fields else value
    return fields


class Rsgi:
    """An application of RSGI.

    Args:
        config: has the application, the trusted proxies and the observer.

    """

    def __init__(self, config: Server) -> None:
        self._config = config

    async def __rsgi__(self, scope: Scope, protocol: Any) -> None:  # noqa: ANN401 (Granian's)
        """Respond to a request."""
        fields = by_name(scope.headers.items())
        client = _Client(protocol)
        body: bytes | _Client = client
        if "transfer-encoding" not in fields and "expect" not in fields:
            length = int(fields.get("content-length", 0))
            if length <= WHOLE_BYTES_MAX:
                body = await protocol() if length else b""
        host, _, port = scope.client.rpartition(":")
        request = Request(
            scope.method,
            scope.path,
            scope.query_string,
            fields,
            body,
            (host, int(port)),
            scope.scheme,
            scope.http_version,
            quote(scope.path),
            client.is_gone,
        )
        try:
            await Exchange(self._config, request, client).run()
        finally:
            client.leave()


class _Client:
    """A client: its body as it arrives, the end of its connection, and its response."""

    def __init__(self, protocol: Any) -> None:  # noqa: ANN401
        self._protocol = protocol
        self._pieces: Any = None
        self._stream: Any = None
        self._end: asyncio.Future[None] | None = None  # of the connection

    def as_stream(self) -> Self:
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        if self._pieces is None:
            self._pieces = aiter(self._protocol)
        while not (piece := bytes(await anext(self._pieces))):
            pass
        return piece

    def is_gone(self) -> bool:
        """Return whether the client has disconnected. The first call begins to wait for that."""
        if self._end is None:
            self._end = asyncio.ensure_future(self._protocol.client_disconnect())
        return self._end.done()

    def leave(self) -> None:
        """End the response, and the wait for the end of the connection."""
        self._stream = None  # Granian ends the body when nothing refers to it
        if self._end is not None:
            self._end.cancel()

    async def send_whole(self, response: Response, body: bytes) -> None:
        self._protocol.response_bytes(response.status, fields_of(response), body)

    async def begin(self, response: Response) -> None:
        self._stream = self._protocol.response_stream(response.status, fields_of(response))

    async def send_piece(self, piece: bytes) -> None:
        await self._stream.send_bytes(piece)

    async def end(self) -> None:
        self._stream = None


@contextlib.asynccontextmanager
async def serving(application: Rsgi, port: int) -> AsyncIterator[None]:
    """Serve an application on Granian while the block runs."""
    server = Granian(
        application, port=port, interface=Interfaces.RSGI, websockets=False, log_enabled=False
    )
    served = asyncio.create_task(server.serve())
    await _wait_for(port, served)
    try:
        yield
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await served


async def _wait_for(port: int, served: asyncio.Task[None]) -> None:
    """Wait until a server listens.

    Raises:
        RuntimeError: it does not start.

    """
    async with asyncio.timeout(30):
        while not served.done():
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.01)
    raise RuntimeError("the server did not start") from served.exception()


def main(database: str, port: str) -> None:
    set_up_memory()
    raise_file_limit()
    settings = Settings(database=f"sqlite:///{database}", port=int(port))
    telemetry = Telemetry(configure_logs(), settings)
    observe, render = telemetry.observe, telemetry.metrics.render

    async def run() -> None:
        freeze_memory()
        stopping = asyncio.Event()
        with contextlib.closing(open_store_of(settings, telemetry)) as store:
            parts = make_parts(settings, store, observe=observe, render_metrics=render)
            config = make_server(settings, parts, observe)
            async with running(parts), serving(Rsgi(config), settings.port):
                # Afterwards, so that it takes the place of the handler of Granian.
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
                await stopping.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
