"""The turns of processes that write one SQLite file.

SQLite allows one writer at a time. A process that waits for its lock polls it. Several busy
processes would mostly poll: the one that has just committed finds the lock free, and the others
wait long. So the workers of a service queue for two locks of the kernel, which wakes the next one
at once:

    take the gate, take the turn, release the gate, commit, release the turn

At most one process has the gate, so it gets the turn next. Without the gate, the process that
releases the turn would take it again before the next one has woken up.

The locks decide only who is next. Other processes that write, such as `plantstore import`, take no
turns; SQLite's own lock keeps all of them apart.
"""

import contextlib
import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Final

_GATE: Final = "gate.lock"
_TURN: Final = "turn.lock"


class Turnstile:
    """A turn among the processes that have a turnstile in the same folder.

    Enter it on one thread at a time. The kernel gives the turn of a process that ends to the next
    one (flock(2)).

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
