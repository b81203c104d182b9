"""The processes of a service: their limits, their workers and their shutdown.

With several workers, the parent starts and replaces them. They share a folder, with their counts
for the metrics and, on SQLite, the locks with which they take turns to write
(`plantstore.commit.writer.Turnstile`).
"""

import asyncio
import contextlib
import ctypes
import fcntl
import gc
import multiprocessing
import os
import resource
import shutil
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.process import BaseProcess
from pathlib import Path
from socket import socket
from types import FrameType
from typing import Any, Final

import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from plantstore.server import listener
from plantstore.server.connection import Connection
from plantstore.settings import Settings

_LIBC: Final = ctypes.CDLL(None)

# Open connections of each worker. An idle one takes about 6 kB, so all take 60 MB. With TLS they
# take 500 MB; the limit on open files (`ulimit -n`) lowers the number.
CONNECTIONS_MAX: Final = 10_000

# Open files besides connections: the store, a check or a backup, the log, the listener.
OTHER_FILES_MAX: Final = 100

# How long workers may take to end after the timeout of a shutdown, to commit what they accepted.
LAST_COMMITS_SECONDS: Final = 10.0

# SQLite and libpq use less than 100 KiB.
THREAD_STACK_BYTES: Final = 1024 * 1024

# Where the folder that workers share is, so that it works even if a disk is full.
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (the folder in it belongs to this user)

# How the names of these folders begin. No other program may use it.
_FOLDER_PREFIX: Final = "plantstore-workers-"

# Age below which a folder without a lock is not removed: its service may be about to lock it.
_NEW_SECONDS: Final = 60

# From malloc.h (https://man7.org/linux/man-pages/man3/mallopt.3.html).
_M_ARENA_MAX: Final = -8


def uvicorn_config(app_factory: Callable[[], Any], settings: Settings) -> uvicorn.Config:
    """Return uvicorn's configuration.

    Args:
        app_factory: makes the application, in each worker.
        settings: those of the server.

    """
    return uvicorn.Config(
        app_factory,
        factory=True,
        interface="asgi3",
        http=Connection,
        ws="none",
        loop=f"{listener.__name__}:Loop",
        lifespan="on",
        workers=settings.workers,
        timeout_graceful_shutdown=settings.stop_seconds,
        ssl_certfile=settings.tls_certificate,
        ssl_keyfile=settings.tls_key,
        proxy_headers=bool(settings.trusted_proxy),
        forwarded_allow_ips=[*settings.trusted_proxy],
        server_header=False,
        access_log=False,
        log_config=None,
    )


def raise_file_limit() -> None:
    """Raise the soft limit on open files to the hard limit, for this process and its workers."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError):  # a sandbox may forbid it
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def connections_max() -> int:
    """Return how many connections a process accepts: fewer if it may open fewer files."""
    files_max, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return max(1, min(CONNECTIONS_MAX, files_max - OTHER_FILES_MAX))


def set_up_memory() -> None:
    """Configure small thread stacks and a single heap. Call it before any thread starts.

    By default, each thread reserves 8 MiB for its stack and 64 MiB for its own heap. A loaded
    service then has 1,040 MiB of address space instead of 95. Under a limit on it (`ulimit -v`),
    the service would fail while it uses only a part.
    """
    threading.stack_size(THREAD_STACK_BYTES)
    with contextlib.suppress(AttributeError):  # other C libraries have no mallopt
        _LIBC.mallopt(_M_ARENA_MAX, 1)


def release_memory() -> None:
    """Return free memory to the kernel: glibc returns only the end of the heap by itself."""
    with contextlib.suppress(AttributeError):  # other C libraries have no malloc_trim
        _LIBC.malloc_trim(0)


def freeze_memory() -> None:
    """Tell the garbage collector that the objects that exist now live as long as the process.

    Each full collection would visit all of them again, and delay the current requests by some ten
    milliseconds. Requests and connections leave no reference cycles behind, so they do not need
    the collector either. It still runs, for unexpected cycles, but a thirtieth as often.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 100)


class Workers(Multiprocess):
    """The parent of several serving processes. It replaces a worker that dies or hangs.

    A second signal ends all of them immediately.

    Args:
        config: of the workers.
        sockets: on which they accept connections.
        drain_seconds: how long they continue to serve after a signal.

    """

    def __init__(self, config: uvicorn.Config, sockets: list[socket], drain_seconds: float) -> None:
        disposition = signal.getsignal(signal.SIGHUP)
        super().__init__(config, sockets)
        if disposition == signal.SIG_IGN:
            signal.signal(signal.SIGHUP, signal.SIG_IGN)
        graceful_seconds = drain_seconds + (config.timeout_graceful_shutdown or 0)
        self._stop_seconds_max = graceful_seconds + LAST_COMMITS_SECONDS

    @property
    def could_not_start(self) -> bool:
        """Whether a worker failed in a way that a new worker would repeat."""
        return any(process.exitcode == STARTUP_FAILURE for process in self.processes)

    def handle_int(self) -> None:
        """Stop the workers."""
        self._stop(signal.SIGINT)

    def handle_term(self) -> None:
        """Stop the workers."""
        self._stop(signal.SIGTERM)

    def handle_hup(self) -> None:
        """Stop the workers; uvicorn would replace them."""
        self.should_exit.set()

    def join_all(self) -> None:
        """Wait for the workers to end, and kill those that hang.

        A second signal ends all of them immediately.
        """
        deadline = time.monotonic() + self._stop_seconds_max
        for process in self.processes:
            while process.process.is_alive():
                process.process.join(0.1)
                self.handle_signals()
                if time.monotonic() > deadline:
                    process.process.kill()  # all that was acknowledged is on disk

    def _stop(self, number: int) -> None:
        if self.should_exit.is_set():
            for process in self.processes:
                process.process.kill()
            sys.exit(128 + number)  # a normal exit removes shared resources
        self.should_exit.set()


@contextlib.contextmanager
def shared_folder(place: Path = SHARED_MEMORY) -> Iterator[Path]:
    """Yield a new folder, and remove it and those of services that were killed."""
    if not os.access(place, os.W_OK):
        place = Path(tempfile.gettempdir())
    for left in place.glob(f"{_FOLDER_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(left):
            if time.time() - left.stat().st_mtime > _NEW_SECONDS:
                shutil.rmtree(left)
    with (
        tempfile.TemporaryDirectory(
            prefix=_FOLDER_PREFIX, dir=place, ignore_cleanup_errors=True
        ) as name,
        _locked(Path(name)),
    ):
        yield Path(name)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder, which the kernel releases when this process ends.

    Raises:
        OSError: a service holds it, or this user may not open the folder.

    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def stop_signals() -> tuple[signal.Signals, ...]:
    """Return the signals that stop a process: SIGHUP too, unless `nohup` has turned it off."""
    both = (signal.SIGINT, signal.SIGTERM)
    is_off = signal.getsignal(signal.SIGHUP) == signal.SIG_IGN
    return both if is_off else (*both, signal.SIGHUP)


def handle_stop_signals(drain_seconds: float, on_stop: Callable[[], None]) -> None:
    """Handle the signals that stop a serving process. Call this on the running event loop.

    The service reports at once that it is not ready, and continues to serve while load
    balancers notice this. Then uvicorn shuts it down gracefully. A second signal ends the
    process immediately; no acknowledged change is lost.

    Args:
        drain_seconds: how long it continues to serve.
        on_stop: is called at once; from then on, the service is not ready.

    """
    loop = asyncio.get_running_loop()
    signals = stop_signals()
    of_uvicorn: Any = signal.getsignal(signal.SIGTERM)
    parent = multiprocessing.parent_process()
    # A worker gets one Ctrl-C twice: from the terminal and from its parent.
    second = signal.SIG_DFL if parent is None else signal.SIG_IGN

    def on_signal(number: int, frame: FrameType | None) -> None:
        for each in signals:
            # A terminal that is closed may send SIGHUP twice: from the shell and from the kernel.
            signal.signal(each, signal.SIG_IGN if each == signal.SIGHUP else second)
        loop.call_soon_threadsafe(drain, number, frame)

    def drain(number: int, frame: FrameType | None) -> None:
        on_stop()
        loop.call_later(drain_seconds, of_uvicorn, number, frame)

    for number in signals:
        signal.signal(number, on_signal)
    if parent is not None:
        threading.Thread(target=_stop_with, args=(parent,), daemon=True).start()


def _stop_with(parent: BaseProcess) -> None:
    """Stop this worker when its parent has ended. Otherwise it would hold the port forever."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
