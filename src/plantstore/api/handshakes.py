"""TLS for a listening socket, with a bound on the handshakes that are under way.

A connection in a handshake costs some 100 kB and is no connection to anybody above. So they
are counted here, before the protocol of a connection sees any of it.
"""

import asyncio
import contextlib
import socket
import ssl
from collections.abc import Callable
from typing import Final

# How long a client may take to finish the handshake, and to say goodbye.
HANDSHAKE_SECONDS: Final = 5.0

# Handshakes that may be under way. One more ends the oldest, which a client that is alive
# has finished long ago: a new connection is served even while all the others hang.
HANDSHAKES_MAX: Final = 256

# How long to wait when no connection can be accepted: too many files are open, say.
_RETRY_SECONDS: Final = 0.1


class TLSServer:
    """Accepts connections, and gives each to a protocol once its handshake is done.

    Args:
        loop: the running event loop.
        make_protocol: makes the protocol of a connection.
        listener: the socket; it listens already, and its owner closes it.
        context: certificate and key.

    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        make_protocol: Callable[[], asyncio.BaseProtocol],
        listener: socket.socket,
        context: ssl.SSLContext,
    ) -> None:
        self._loop = loop
        self._make_protocol = make_protocol
        self._listener = listener
        self._context = context
        self._handshakes: dict[asyncio.Task[None], None] = {}  # the oldest first
        listener.settimeout(0)
        self._accepting = loop.create_task(self._accept())

    def close(self) -> None:
        """Accept no more connections, and end the handshakes that are under way."""
        for task in (self._accepting, *self._handshakes):
            task.cancel()

    async def wait_closed(self) -> None:
        """Return when that is done."""
        await asyncio.gather(self._accepting, *self._handshakes, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                connection, _ = await self._loop.sock_accept(self._listener)
            except OSError:
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            if len(self._handshakes) >= HANDSHAKES_MAX:
                oldest = next(iter(self._handshakes))
                self._forget(oldest)
                oldest.cancel()
            task = self._loop.create_task(self._shake_hands(connection))
            self._handshakes[task] = None
            task.add_done_callback(self._forget)

    def _forget(self, task: asyncio.Task[None]) -> None:
        self._handshakes.pop(task, None)

    async def _shake_hands(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError):  # which those of TLS are, too
            await self._loop.connect_accepted_socket(
                self._make_protocol,
                connection,
                ssl=self._context,
                ssl_handshake_timeout=HANDSHAKE_SECONDS,
                ssl_shutdown_timeout=HANDSHAKE_SECONDS,
            )
