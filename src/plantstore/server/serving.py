"""Serves connections on an event loop, from the start of a process to its stop.

A connection in a TLS handshake takes some 100 kB, and has no protocol yet that could count it.
uvloop's own server does not limit the number of handshakes, so `Listener` does. Without TLS, it is
as fast as uvloop's server: beside a thousand busy connections, a new one gets its response just as
soon.
"""

import asyncio
import contextlib
import logging
import signal
import socket
import ssl
from collections.abc import Callable
from email.utils import formatdate
from types import FrameType
from typing import Final

from plantstore.server.connection import Connection, Server
from plantstore.server.tls import Tls

# Connections that the kernel accepts while the event loop is busy.
BACKLOG: Final = 2048

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

# How often a shutdown looks whether the last request has ended.
_POLL_SECONDS: Final = 0.05


async def serve(
    server: Server,
    listener: socket.socket,
    context: ssl.SSLContext | None,
    stopping: asyncio.Event,
) -> None:
    """Serve until an event is set, and then finish the accepted requests.

    Args:
        server: what the connections serve.
        listener: the socket. It is closed.
        context: certificate and key; None for no TLS.
        stopping: begins the shutdown. It closes idle connections, and waits `stop_seconds` for the
            requests in progress. The others are cancelled.

    """
    loop = asyncio.get_running_loop()
    with listener:
        listener.listen(BACKLOG)
        accepting = Listener(loop, lambda: Connection(server, loop), listener, context)
        keeping_date = loop.create_task(_keep_date(server))
        await stopping.wait()
        accepting.close()
    await accepting.wait_closed()
    await shut_down(server)
    keeping_date.cancel()


async def shut_down(server: Server) -> None:
    """Close idle connections, and finish the requests of the others or cancel them."""
    for connection in [*server.connections]:
        connection.shutdown()
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(server.stop_seconds):
            while server.connections or server.tasks:  # noqa: ASYNC110 (both are sets)
                await asyncio.sleep(_POLL_SECONDS)
    if server.tasks:
        logging.getLogger(__name__).error("Requests were cancelled: %d", len(server.tasks))
    for task in [*server.tasks]:
        task.cancel()


async def _keep_date(server: Server) -> None:
    """Keep the date of the responses up to date."""
    while True:
        server.date = formatdate(usegmt=True)
        await asyncio.sleep(1)


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


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a process: SIGHUP too, unless `nohup` has turned it off."""
    both = (signal.SIGINT, signal.SIGTERM)
    is_off = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return both if is_off else (*both, signal.SIGHUP)


class StopSignals:
    """Handles the signals that stop a serving process, from its creation on.

    The first one begins the stop. A second one ends the process immediately; no acknowledged change
    is lost. A worker ignores it: a parent that has told it to stop may end before it.

    Args:
        is_worker: whether this process is one of several workers.

    """

    def __init__(self, *, is_worker: bool) -> None:
        self._signals = stop_signals()
        self._second = signal.SIG_IGN if is_worker else signal.SIG_DFL
        self._begin: Callable[[], object] = lambda: None
        self._has_begun = False
        for number in self._signals:
            signal.signal(number, self._handle)

    def on_first(self, begin: Callable[[], object]) -> None:
        """Call a function at the first signal, also if that has come already.

        It is called between any two instructions, on the thread that handles signals.
        """
        self._begin = begin
        if self._has_begun:
            begin()

    def _handle(self, _number: int, _frame: FrameType | None) -> None:
        for each in self._signals:
            # A terminal that is closed may send SIGHUP twice: from the shell and from the kernel.
            signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else self._second)
        self._has_begun = True
        self._begin()
