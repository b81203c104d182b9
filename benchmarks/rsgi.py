"""The operations of the service as an application of RSGI, the interface of Granian.

The program that serves it runs the parts of the application.
"""

import asyncio
from typing import Any, Final, Self
from urllib.parse import quote

from granian.rsgi import Scope

from asgi import Exchange, by_name, fields_of
from plantstore.server.connection import Server
from plantstore.server.interface import Request, Response

# A body up to this size is read before the operation begins, which is faster.
WHOLE_BYTES_MAX: Final = 64 * 1024


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
