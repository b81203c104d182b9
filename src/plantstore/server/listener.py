"""Accepts connections, and limits the number of TLS handshakes in progress.

A connection in a TLS handshake takes some 100 kB, and has no protocol yet that could count it.
uvloop's own server does not limit the number of handshakes, so this listener does. Without TLS, it
is as fast as uvloop's server: beside a thousand busy connections, a new one gets its response just
as soon.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

from plantstore.server.tls import Tls

# Connections accepted per iteration of the event loop. Each takes a tenth of a millisecond. One may
# serve one request of each open connection, so with one, new ones would wait long. With more, one
# of several workers would accept all connections of a client that opens many at once.
ACCEPTED_MAX: Final = 16

# How long a client may take for the TLS handshake.
HANDSHAKE_SECONDS: Final = 5.0

# Maximum number of handshakes in progress. One more ends the oldest. A working client would
# have finished it long before, so new connections are served even if all others hang.
HANDSHAKES_MAX: Final = 256

# Pause after a connection could not be accepted (because too many files are open, for example).
_RETRY_SECONDS: Final = 0.1


class Listener:
    """Accepts connections, and gives each a protocol. With TLS, the handshake comes first.

    Args:
        loop: the running event loop.
        make_protocol: makes the protocol of a connection.
        listener: the socket; it listens already, and its owner closes it.
        context: certificate and key; None for no TLS.

    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make_protocol: Callable[[], asyncio.Protocol],
        listener: socket.socket,
        context: ssl.SSLContext | None,
    ) -> None:
        self._loop = loop
        self._make_protocol = make_protocol
        self._listener = listener
        self._begun: dict[asyncio.Task[None], None] = {}  # the oldest first
        self._retry: asyncio.TimerHandle | None = None
        self._context = context
        listener.settimeout(0)
        self._listen()

    def close(self) -> None:
        """Accept no more connections, and close those in a handshake.

        Without TLS, a connection may have begun a request while its task waits for its next turn.
        """
        self._loop.remove_reader(self._listener)
        if self._retry is not None:
            self._retry.cancel()
        if self._context is not None:
            for task in self._begun:
                task.cancel()

    async def wait_closed(self) -> None:
        """Wait until `close` has taken effect."""
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
        protocol = self._make_protocol()
        with contextlib.suppress(OSError):
            if self._context is None:
                await self._loop.connect_accepted_socket(lambda: protocol, connection)
                return
            tls = Tls(protocol, self._context, self._loop)
            transport, _ = await self._loop.connect_accepted_socket(lambda: tls, connection)
            try:
                async with asyncio.timeout(HANDSHAKE_SECONDS):
                    await tls.handshake
            finally:
                if tls.handshake.cancelled():
                    transport.abort()
