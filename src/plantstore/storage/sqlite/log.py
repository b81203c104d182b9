"""How the write-ahead log of a file of SQLite is kept short.

SQLite copies the log into the database by itself, but begins the log anew only when no
reader uses it at that moment. With readers that overlap, it would grow without end. So
once it is long, the writer waits for the readers that there are: while it does, nobody
adds to the log, and new readers do without it (https://sqlite.org/wal.html).
"""

import math
import os
import time
from collections.abc import Callable
from typing import Final

import apsw

from plantstore.storage.sqlite.file import BUSY_POLL_SECONDS, LOG_BYTES_MAX, wait_for_another

# Time between two looks at the size of the log, in which some mebibytes are written at most.
LOOK_SECONDS: Final = 0.02

# How long the writer waits for the readers, which is longer than a page or a look-up takes, and
# how long it leaves them alone when that was in vain (for an export, say): so that writers lose
# a twentieth of their time at most.
WAIT_SECONDS: Final = 0.05
PAUSE_SECONDS: Final = 1.0


class Log:
    """The log, for the thread that writes.

    Args:
        connection: the one that writes.
        bytes_max: of the file, past which the log is to begin anew.
        monotonic: a clock in seconds that is never set back.

    """

    def __init__(
        self,
        connection: apsw.Connection,
        bytes_max: int = LOG_BYTES_MAX,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._connection = connection
        self._bytes_max = bytes_max
        self._monotonic = monotonic
        self._look_at = -math.inf

    def bound(self) -> None:
        """Begin the log anew if it is long; call it after each commit."""
        now = self._monotonic()
        if now < self._look_at:
            return
        self._look_at = now + LOOK_SECONDS
        if self._is_long() and not self._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART):
            self._look_at = self._monotonic() + PAUSE_SECONDS

    def trim(self) -> bool:
        """Cut a long log back to nothing; tell whether there is none left to cut."""
        return not self._is_long() or self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _is_long(self) -> bool:
        try:
            return os.stat(self._connection.filename_wal).st_size > self._bytes_max  # noqa: PTH116
        except FileNotFoundError:
            return False

    def _checkpoint(self, mode: int) -> bool:
        """Try a checkpoint. What is in the log is durable, so its errors are nobody's."""
        deadline = self._monotonic() + WAIT_SECONDS

        def wait(_polls: int) -> bool:
            time.sleep(BUSY_POLL_SECONDS)
            return self._monotonic() < deadline

        self._connection.set_busy_handler(wait)
        try:
            self._connection.wal_checkpoint(mode=mode)
        except apsw.Error:
            return False
        finally:
            self._connection.set_busy_handler(wait_for_another)
        return True
