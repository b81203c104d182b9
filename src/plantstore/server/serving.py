"""Serves connections on an event loop, from the start of a process to its stop."""

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
from plantstore.server.listener import Listener

# Connections that the kernel accepts while the event loop is busy.
BACKLOG: Final = 2048

# How often a shutdown looks whether the last request has ended.
_LOOK_SECONDS: Final = 0.05


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
                await asyncio.sleep(_LOOK_SECONDS)
    if server.tasks:
        logging.getLogger(__name__).error("Requests were cancelled: %d", len(server.tasks))
    for task in [*server.tasks]:
        task.cancel()


async def _keep_date(server: Server) -> None:
    """Keep the date of the responses up to date."""
    while True:
        server.date = formatdate(usegmt=True)
        await asyncio.sleep(1)


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
