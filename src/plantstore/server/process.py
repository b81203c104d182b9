"""The limits of a process, the folder that several workers share, and their turns to write.

The folder has their counts for the metrics and, on SQLite, the locks of their turns.
"""

import contextlib
import ctypes
import fcntl
import gc
import os
import resource
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Final

_LIBC: Final = ctypes.CDLL(None)

# Open connections of each worker. An idle one takes about 6 kB, so all take 60 MB. With TLS they
# take 200 MB; the limit on open files (`ulimit -Hn`) lowers the number.
CONNECTIONS_MAX: Final = 10_000

# Open files besides connections: the store, a check or a backup, the log, the listener.
OTHER_FILES_MAX: Final = 100

# SQLite and libpq use less than 100 KiB.
THREAD_STACK_BYTES: Final = 1024 * 1024

# Where the folder that workers share is, so that it works even if a disk is full.
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (the folder in it belongs to this user)

# How the names of these folders begin. No other program may use it.
_FOLDER_PREFIX: Final = "plantstore-workers-"

# Age below which a folder without a lock is not removed: its service may be about to lock it.
_NEW_SECONDS: Final = 60

# Locks in the folder.
_GATE: Final = "gate.lock"
_TURN: Final = "turn.lock"

# From malloc.h (https://man7.org/linux/man-pages/man3/mallopt.3.html).
_M_ARENA_MAX: Final = -8


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


class Turnstile:
    """A turn to write one SQLite file, among the processes with a turnstile in the same folder.

    SQLite allows one writer at a time. A process that waits for its lock polls it. Several busy
    processes would mostly poll: the one that has just committed finds the lock free, and the others
    wait long. So the workers of a service queue for two locks of the kernel, which wakes the next
    one at once:

        take the gate, take the turn, release the gate, commit, release the turn

    At most one process has the gate, so it gets the turn next. Without the gate, the process that
    releases the turn would take it again before the next one has woken up.

    The locks decide only who is next. Other processes that write, such as `plantstore import`, take
    no turns; SQLite's own lock keeps all of them apart. The kernel gives the turn of a process that
    ends to the next one (flock(2)).

    Enter it on one thread at a time.

    Args:
        folder: belongs to this user, and no other user can write to it. The files of the locks are
            created there.

    Raises:
        OSError: the files cannot be opened.

    """

    def __init__(self, folder: Path) -> None:
        flags = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC
        self._gate, self._turn = (os.open(folder / name, flags, 0o600) for name in (_GATE, _TURN))

    def __enter__(self) -> None:
        self._lock(self._gate, fcntl.LOCK_EX)
        self._lock(self._turn, fcntl.LOCK_EX)
        self._lock(self._gate, fcntl.LOCK_UN)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._lock(self._turn, fcntl.LOCK_UN)

    def _lock(self, file: int, operation: int) -> None:
        with contextlib.suppress(OSError):  # such as ENOLCK: SQLite's own lock is enough
            fcntl.flock(file, operation)
