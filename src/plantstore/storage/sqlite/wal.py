"""Copies the write-ahead log into the database file (a checkpoint), and limits its size.

SQLite restarts the log only when no reader uses it at that moment. If readers overlap all the
time, the log would grow without limit. So when the log is long, the writer waits for the present
readers. Meanwhile nobody appends to the log, and new readers do not need it
(https://sqlite.org/wal.html). A long read, such as an export or a read by another program, lets
the log grow until it ends.

SQLite's own checkpoints ignore failures, so they are off. A checkpoint beside a long read copies a
part of the log, and the next complete one syncs it. If that sync fails, no later one makes the
part durable, and SQLite does not copy it again. Then the log is its only durable copy, and must
not restart. So changes are refused until all processes have ended. The next one copies all of it.
"""

import math
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

import apsw

from plantstore.storage.sqlite.file import BUSY_POLL_SECONDS, wait_for_another

# If the write-ahead log is larger than this, it is restarted, and its file is cut to this size.
LOG_BYTES_MAX: Final = 16 * 1024 * 1024

# No export over HTTP begins while the log is longer than this. Without long reads, the log hardly
# becomes longer than LOG_BYTES_MAX.
EXPORT_LOG_BYTES_MAX: Final = 4 * LOG_BYTES_MAX

# How long the writer waits for readers. A page or a lookup takes less time.
WAIT_SECONDS: Final = 0.01

# How long the writer does not try again after a wait without success (because of an export, for
# example). So it spends at most a hundredth of its time on waiting.
PAUSE_SECONDS: Final = 1.0


def log_bytes(database: str) -> int:
    """Return the size of the log of a database in use."""
    return Path(f"{database}-wal").stat().st_size


class WalLimit:
    """The write-ahead log, for the thread that writes.

    Args:
        connection: the connection that writes.
        refuse_changes: is called when a sync has failed that no later one makes up for.
        bytes_max: a commit that leaves half of this in the log is followed by a checkpoint. A
            larger one writes a page that changed several times only once. The other half is for
            the largest batch.
        monotonic: a clock in seconds that never goes back.

    """

    def __init__(
        self,
        connection: apsw.Connection,
        refuse_changes: Callable[[], None],
        bytes_max: int,
        monotonic: Callable[[], float],
    ) -> None:
        self._connection = connection
        self._refuse_changes = refuse_changes
        self._bytes_max = bytes_max
        self._monotonic = monotonic
        self._pages_max = bytes_max // 2 // connection.pragma("page_size")
        self._pages = 0
        self._try_at = -math.inf
        connection.set_wal_hook(self._on_commit)  # and SQLite makes no checkpoints after commits

    def _on_commit(self, _connection: apsw.Connection, _database: str, pages: int) -> int:
        self._pages = pages
        return apsw.SQLITE_OK

    def bound(self) -> None:
        """Copy a long log, and let the next commit restart it. Call this after each commit."""
        if (
            self._pages >= self._pages_max
            and self._monotonic() >= self._try_at
            and not self._checkpoint(apsw.SQLITE_CHECKPOINT_RESTART)
        ):
            self._try_at = self._monotonic() + PAUSE_SECONDS

    def trim(self) -> bool:
        """Cut a long log to size 0. Return False if readers prevent this."""
        is_long = log_bytes(self._connection.filename) > self._bytes_max
        return not is_long or self._checkpoint(apsw.SQLITE_CHECKPOINT_TRUNCATE)

    def _checkpoint(self, mode: int) -> bool:
        """Try a checkpoint, and return whether it succeeded.

        Errors are not raised, because everything in the log is durable already.
        """
        deadline = self._monotonic() + WAIT_SECONDS

        def wait(_polls: int) -> bool:
            time.sleep(BUSY_POLL_SECONDS)
            return self._monotonic() < deadline

        self._connection.set_busy_handler(wait)
        try:
            self._connection.wal_checkpoint(mode=mode)
        except apsw.Error as error:
            code: int = getattr(error, "extendedresult", 0)  # apsw's type stubs lack it
            if code == apsw.SQLITE_IOERR_FSYNC and self._has_copied_a_part():
                self._refuse_changes()
            return False
        finally:
            self._connection.set_busy_handler(wait_for_another)
        return True

    def _has_copied_a_part(self) -> bool:
        """Return whether a part was copied before, or whether that cannot be found out."""
        try:
            _, copied = self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_NOOP)
        except apsw.Error:
            return True
        return copied > 0
