"""How the processes of a service run, and how they stop."""

import asyncio
import contextlib
import ctypes
import multiprocessing
import os
import resource
import signal
import sys
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final

import uvicorn
import uvloop
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from plantstore.api.connection import BoundedConnection
from plantstore.api.exchange import ASGIApp
from plantstore.api.listener import Listener
from plantstore.settings import Settings

# Open files that are no connections: of the store, a check or a backup, the log, the listener.
OTHER_FILES_MAX: Final = 100

# SQLite and libpq use some tens of KiB.
THREAD_STACK_BYTES: Final = 1024 * 1024

# Freed memory that a process keeps. Some of the largest plants, in each form that they take.
KEPT_BYTES_MAX: Final = 64 * 1024 * 1024

# Of malloc.h (https://man7.org/linux/man-pages/man3/mallopt.3.html).
_M_TRIM_THRESHOLD: Final = -1
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


def server_config(app_factory: Callable[[], ASGIApp], settings: Settings) -> uvicorn.Config:
    """Return how uvicorn runs an application here; with several workers, each makes its own."""
    return uvicorn.Config(
        app_factory,
        factory=True,
        interface="asgi3",
        http=BoundedConnection,
        ws="none",
        loop=f"{__name__}:Loop",
        lifespan="on",
        workers=settings.workers,
        timeout_graceful_shutdown=settings.stop_seconds,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
    )


class Loop(uvloop.Loop):
    """The event loop, which accepts connections by `plantstore.api.listener`."""

    async def create_server(self, *args: Any, **kwargs: Any) -> Any:  # noqa: ANN401 (asyncio's)
        """Listen, as uvicorn asks for it."""
        [make_protocol] = args
        listener = kwargs["sock"]
        listener.listen(kwargs["backlog"])
        return Listener(self, make_protocol, listener, kwargs["ssl"])


def raise_file_limit() -> int:
    """Let this process and its children open as many files as they may; return how many."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    except OSError:  # A sandbox may forbid it.
        return soft
    return hard


def set_up_memory() -> None:
    """Have the C library use one heap, and keep what is freed in it; call it before any thread.

    Each thread would reserve 8 MiB for its stack and 64 MiB for a heap of its own: under a
    limit on the address space, a service that uses a third of it would run out. And glibc
    would return each large text to the kernel and get the next one page by page, which takes
    longer than all that is done with it.
    """
    threading.stack_size(THREAD_STACK_BYTES)
    with contextlib.suppress(AttributeError):  # another C library has no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        mallopt(_M_ARENA_MAX, 1)
        mallopt(_M_TRIM_THRESHOLD, KEPT_BYTES_MAX)
        mallopt(_M_MMAP_THRESHOLD, KEPT_BYTES_MAX // 2)


class Stop:
    """What a signal to stop does in a process that serves.

    The service is not ready at once, and goes on serving while a load balancer takes
    note; then uvicorn stops it in good order. A second signal ends the process there
    and then, which loses nothing that was acknowledged.

    Args:
        drain_seconds: how long it goes on serving.
        on_stop: is called when it is not ready any more.

    """

    def __init__(self, drain_seconds: float, on_stop: Callable[[], None]) -> None:
        self._drain_seconds = drain_seconds
        self._on_stop = on_stop
        self._was_told = False

    def take_over(self) -> None:
        """Put this before what uvicorn does with the signals; called on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._uvicorn: Any = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
        for number in _STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        parent = multiprocessing.parent_process()
        self._is_worker = parent is not None
        if parent is not None:
            threading.Thread(target=_stop_with, args=(parent,), daemon=True).start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._was_told:
            self._was_told = True
            self._loop.call_soon_threadsafe(self._drain, number, frame)
        elif not self._is_worker:  # A worker gets a Ctrl-C from the terminal and from its parent.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _drain(self, number: int, frame: FrameType | None) -> None:
        self._on_stop()
        self._loop.call_later(self._drain_seconds, self._uvicorn[number], number, frame)


class Workers(Multiprocess):
    """Processes that serve, and their parent, which replaces those that die or hang.

    A second signal to stop ends them all there and then.
    """

    @property
    def could_not_start(self) -> bool:
        """Whether one said that another would not start either."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)

    def handle_int(self) -> None:
        """Stop."""
        self._stop(signal.SIGINT)

    def handle_term(self) -> None:
        """Stop."""
        self._stop(signal.SIGTERM)

    def join_all(self) -> None:
        """Wait for the workers, and for a second signal."""
        for process in self.processes:
            while process.process.is_alive():
                process.process.join(0.1)
                self.handle_signals()

    def _stop(self, number: int) -> None:
        if self.should_exit.is_set():
            for process in self.processes:
                process.process.kill()
            sys.exit(128 + number)  # which removes what they shared
        self.should_exit.set()


def _stop_with(parent: BaseProcess) -> None:
    """Stop this worker when its parent is gone, or it would hold the port for ever."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
