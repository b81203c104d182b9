"""Checks that the write-ahead log of an open database is complete.

The log begins with a header. Each page in it is a frame with a header of its own
(https://sqlite.org/walformat.html). SQLite keeps the number of valid frames in shared memory, and
does not notice when the file is truncated or overwritten.
"""

import itertools
import os
from collections.abc import Callable
from typing import Final

import apsw

_HEADER_BYTES: Final = 32
_FRAME_HEADER_BYTES: Final = 24
_MAGIC: Final = b"\x37\x7f\x06"

# How often a log that seems damaged is checked. Another process may be restarting it.
_CHECKS_MAX: Final = 10


class LogFrames:
    """Compares the log file with what SQLite knows about it.

    Args:
        path: of the log.
        page_bytes: the page size of the database.
        wait: is called with the number of times that the log was busy. It waits, and returns
            whether to try again.

    """

    def __init__(self, path: str, page_bytes: int, wait: Callable[[int], bool]) -> None:
        self._page_bytes = page_bytes
        self._wait = wait
        # SQLite takes no locks on the log, so opening and closing it here drops none.
        self._log = os.open(path, os.O_RDONLY | os.O_CLOEXEC)

    def header(self) -> bytes:
        """Return the header, which changes when the log is restarted; empty if there is none."""
        return os.pread(self._log, _HEADER_BYTES, 0)

    def close(self) -> None:
        """Close the file."""
        os.close(self._log)

    def are_complete(self, connection: apsw.Connection, log_bytes: int) -> bool:
        """Return whether the log contains all valid frames, and their header.

        Another process may restart the log between two steps, so a failed check is repeated.
        """
        checks = 0
        for polls in itertools.count():
            try:
                frames = self._count(connection)
            except apsw.BusyError:
                if not self._wait(polls):
                    raise
                continue
            if frames == 0 or self._holds(frames, log_bytes):
                return True
            checks += 1
            if checks == _CHECKS_MAX:
                return False
            self._wait(polls)
            log_bytes = os.fstat(self._log).st_size
        raise AssertionError  # pragma: no cover (the loop has no end)

    def may_explain(self, connection: apsw.Connection, database_bytes: int) -> bool:
        """Return whether all pages that a shorter database file lacks may be in the log.

        A VACUUM by another program makes the file shorter, and so does a truncation.
        """
        missing: int = connection.pragma("page_count") - database_bytes // self._page_bytes
        return missing <= self._count(connection)

    def _count(self, connection: apsw.Connection) -> int:
        return connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)[0]

    def _holds(self, frames: int, log_bytes: int) -> bool:
        """Return whether the last frame is there, and has the same salts as the header."""
        frame_bytes = _FRAME_HEADER_BYTES + self._page_bytes
        if log_bytes < _HEADER_BYTES + frames * frame_bytes:
            return False
        header = self.header()
        last = os.pread(self._log, 16, _HEADER_BYTES + (frames - 1) * frame_bytes)
        return header[:3] == _MAGIC and header[16:24] == last[8:]
