"""Accepts connections, and bounds the TLS handshakes that are under way.

uvloop accepts one connection in a turn of the event loop. A turn lasts as long as one request
of each connection, so many busy connections would delay a new one behind all that wait to be
accepted. This accepts many in a turn.

A connection in a TLS handshake costs some 100 kB and is no connection to anybody above. So
the handshakes are counted here, before the protocol of a connection sees any of it.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Any, Final

import uvloop

# Connections accepted in a turn of the event loop. Each costs a tenth of a millisecond.
ACCEPTED_MAX: Final = 64

# How long a client may take to finish the handshake, and to say goodbye.
HANDSHAKE_SECONDS: Final = 5.0

# Handshakes that may be under way. One more ends the oldest, which a client that is alive
# has finished long ago: a new connection is served even while all the others hang.
HANDSHAKES_MAX: Final = 256

# How long to wait when no connection can be accepted: too many files are open, say.
_RETRY_SECONDS: Final = 0.1


class Listener:
    """Accepts connections, and gives each to a protocol: over TLS, once its handshake is done.

    Args:
        loop: the running event loop.
        make_protocol: makes the protocol of a connection.
        listener: the socket; it listens already, and its owner closes it.
        context: certificate and key; None for no TLS.

    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        listener: socket.socket,
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop = loop
        self._make_protocol = make_protocol
        self._listener = listener
        self._begun: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._retry: asyncio.TimerHandle | None = None
        self._tls: dict[str, Any] = {}
        if context is not None:
            self._tls = {
                "ssl": context,
                "ssl_handshake_timeout": HANDSHAKE_SECONDS,
                "ssl_shutdown_timeout": HANDSHAKE_SECONDS,
            }
        listener.settimeout(0)
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and drop those that have no protocol yet."""
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        for task in self._begun:
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when that is done."""
        await asyncio.gather(*self._begun, return_exceptions=True)

    def _listen(self) -> None:
        self._loop.add_reader(self._listener, self._accept)

    def _accept(self) -> None:
        for _ in range(ACCEPTED_MAX):
            try:
                connection, _ = self._listener.accept()
            except (BlockingIOError, ConnectionAbortedError):
                return
            except OSError:
                self._loop.remove_reader(self._listener)
                self._retry = self._loop.call_later(_RETRY_SECONDS, self._listen)
                return
            self._begin(connection)

    def _begin(self, connection: socket.socket) -> None:
        if len(self._begun) >= HANDSHAKES_MAX:
            oldest = next(iter(self._begun))
            self._forget(oldest)
            oldest.cancel()
        task = self._loop.create_task(self._connect(connection))
        self._begun[task] = None
        task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._begun.pop(task, None)

    async def _connect(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # which those of TLS are, too
            await self._loop.connect_accepted_socket(self._make_protocol, connection, **self._tls)


class Loop(uvloop.Loop):
    """The event loop, which accepts connections by a `Listener`."""

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (asyncio's)
        """Listen, as uvicorn asks for it."""
        [make_protocol] = args
        listener = kwargs["sock"]
        listener.listen(kwargs["backlog"])
        return Listener(self, make_protocol, listener, kwargs["ssl"])
