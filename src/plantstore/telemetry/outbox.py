"""Lines on their way to the file of the log.

Theory of operation
-------------------
A write to a pipe that nobody reads does not return, and one to a full disk fails. So a
line is put into a queue, which is bounded, and a thread writes what waits in it. Who logs
never waits: past the bound a line is dropped and counted. When lines are written again, a
line says how many were dropped.

The thread writes to the file descriptor. Python's own streams have a lock, which an
interpreter that ends would wait for.
"""

import atexit
import io
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

# Lines that wait, in number and in bytes: some seconds of the access log under full load.
OUTBOX_LINES_MAX: Final = 20_000
OUTBOX_BYTES_MAX: Final = 4 * 1024 * 1024

# How long the start and the end of a process wait for lines that are not written yet.
FLUSH_SECONDS: Final = 1.0


class Outbox(io.TextIOBase):
    """A text file whose `write` takes a line, and never blocks.

    It is closed when the process exits.

    Args:
        descriptor: of the file that takes the lines.
        notice: renders the line that says how many were dropped.

    """

    def __init__(self, descriptor: int, notice: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._notice = notice
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        # What waits, and what is being written.
        self._lines = 0
        self._bytes = 0
        self._dropped = 0
        self._untold = 0
        self._is_ending = False
        self._ends_within_a_line = False
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()
        atexit.register(self.close)

    @property
    def dropped(self) -> int:
        """How many lines were dropped."""
        return self._dropped

    def writable(self) -> bool:
        """Return True, as a file that is written does."""
        return True

    def write(self, text: str, /) -> int:
        """Put a line into the queue, or drop it if that is full."""
        data = text.encode(errors="backslashreplace")
        with self._changed:
            if (
                self._is_ending
                or self._lines >= OUTBOX_LINES_MAX
                or self._bytes + len(data) > OUTBOX_BYTES_MAX
            ):
                self._drop(data)
            else:
                self._waiting.append(data)
                self._lines += 1
                self._bytes += len(data)
                self._changed.notify_all()
        return len(text)

    def drain(self) -> None:
        """Wait until what waits is written, but not for long."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, FLUSH_SECONDS)

    def close(self) -> None:
        """Take no more lines, and wait for a while until those that wait are written."""
        with self._changed:
            self._is_ending = True
            self._changed.notify_all()
        self._thread.join(FLUSH_SECONDS)
        atexit.unregister(self.close)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiting or self._is_ending)
                if not self._waiting:
                    return
                lines, data = len(self._waiting), b"".join(self._waiting)
                self._waiting.clear()
            rest = self._write(data)
            with self._changed:
                self._lines -= lines
                self._bytes -= len(data)
                self._drop(rest)
                self._changed.notify_all()
                untold = self._untold
            if untold and not rest and not self._write(self._notice(untold).encode()):
                with self._changed:
                    self._untold -= untold

    def _drop(self, data: bytes) -> None:
        lines = data.count(b"\n")
        self._dropped += lines
        self._untold += lines

    def _write(self, lines: bytes) -> bytes:
        """Write lines; return what could not be written of them."""
        data = rest = b"\n" + lines if self._ends_within_a_line else lines
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # Somebody who shares the file made it so.
                select.select([], [self._descriptor], [])
            except OSError:
                break
        if written := data[: len(data) - len(rest)]:
            self._ends_within_a_line = not written.endswith(b"\n")
        return rest[-len(lines) :]
