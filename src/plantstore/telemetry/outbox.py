"""The queue of log lines, and the thread that writes them.

Theory of operation
-------------------
A write to a full pipe blocks until somebody reads from the pipe, and a write to a full disk
fails. So a log line is only put into a bounded queue, and a thread writes the queue to the file.
Logging never blocks: if the queue is full, the line is dropped and counted. After the next
successful write, a line reports how many lines were dropped.

The thread writes to the file descriptor. Python's own streams have a lock, and the interpreter
would wait for this lock when it exits.
"""

import atexit
import os
import select
import threading
from collections import deque
from collections.abc import Callable
from typing import Final

# Bounds of the queue in lines and in bytes: some seconds of the access log under full load.
OUTBOX_LINES_MAX: Final = 20_000
OUTBOX_BYTES_MAX: Final = 4 * 1024 * 1024

# How long a process waits for the queue to become empty, when it starts and when it exits.
FLUSH_SECONDS: Final = 1.0


class Outbox:
    """A text file whose `write` puts a line into the queue, and never blocks.

    It is closed when the process exits.

    Args:
        descriptor: the file that the lines are written to.
        notice: renders the line that reports how many lines were dropped.

    """

    def __init__(self, descriptor: int, notice: Callable[[int], str]) -> None:
        self._descriptor = descriptor
        self._notice = notice
        self._changed = threading.Condition()
        self._waiting: deque[bytes] = deque()
        # The lines in the queue and those that are being written.
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
        """The number of lines that were dropped."""
        return self._dropped

    def write(self, text: str, /) -> int:
        """Put a line into the queue, or drop it if the queue is full."""
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

    def flush(self) -> None:
        """Do nothing: loggers call this after each line."""

    def drain(self) -> None:
        """Wait until the queue is empty, for FLUSH_SECONDS at most."""
        with self._changed:
            self._changed.wait_for(lambda: not self._lines, FLUSH_SECONDS)

    def close(self) -> None:
        """Accept no more lines, and wait until the queue is empty, for FLUSH_SECONDS at most."""
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
        """Write lines, and return those that could not be written."""
        data = rest = b"\n" + lines if self._ends_within_a_line else lines
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process that has this file open made it non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                break
        if written := data[: len(data) - len(rest)]:
            self._ends_within_a_line = not written.endswith(b"\n")
        return rest[-len(lines) :]
