"""Checks that all processes that use a database have the same files open.

While a process has a database open in WAL mode, it holds two shared locks: one on the database,
and one on byte 128 of the -shm file (https://sqlite.org/walformat.html#walidxlocks). If a file
was deleted or replaced since, the process still holds its lock on the old file. A new process
would then create another -shm file, and the two processes would overwrite each other's changes.

`/proc/locks` shows the locks of all processes. Opening a file to query its locks is not
possible: closing it would drop the locks of this process.

If `/proc/locks` cannot be read, or shows other device numbers than `stat` (as on btrfs), no
process is found, and no database is refused.
"""

import os
import time
from pathlib import Path
from typing import Final

from plantstore.errors import StoreUnreachableError

# A byte that is locked while the database is in use (SHARED_FIRST in SQLite).
_DATABASE_BYTE: Final = 0x4000_0002
# A byte that is locked while the -shm file is in use (UNIX_SHM_DMS in SQLite).
_INDEX_BYTE: Final = 128

# While a process opens or closes the database, it has only some of the files open. This is how
# often and how long to wait for it: about a second in all.
POLL_SECONDS: Final = 0.01
POLLS_MAX: Final = 100


def insist_on_shared_files(path: str, name: str) -> None:
    """Wait until all other processes that use a database have the files at its path open.

    Args:
        path: of the database, without symbolic links.
        name: of the database in messages.

    Raises:
        StoreUnreachableError: a process uses a different file. The message names both.

    """
    polls = 0
    while stray := _find_stray(path):
        polls += 1
        if polls == POLLS_MAX:
            raise _in_use(name, *stray)
        time.sleep(POLL_SECONDS)


def _in_use(name: str, pid: int, suffix: str) -> StoreUnreachableError:
    return StoreUnreachableError(
        f"The database {name} is in use by process {pid}, and the {suffix or 'database'} file of"
        " that process was moved, replaced or deleted; put the file back, or stop that process"
    )


def _find_stray(path: str) -> tuple[int, str] | None:
    """Return a process that uses a different file, and the suffix of that file."""
    users = _holders(path, _DATABASE_BYTE)
    sharers = _holders(f"{path}-shm", _INDEX_BYTE)
    for pid in sorted(sharers - users):
        return pid, ""
    for pid in sorted(users - sharers):
        return pid, "-shm"
    log = _stat(f"{path}-wal")
    for pid in sorted(users):
        if log is None or not _may_have_open(pid, log):
            return pid, "-wal"
    return None


def _holders(path: str, byte: int) -> set[int]:
    """Return the ids of the other processes that hold a lock on a byte of a file."""
    file = _stat(path)
    if file is None:
        return set()
    place = f"{os.major(file.st_dev):02x}:{os.minor(file.st_dev):02x}:{file.st_ino}"
    try:
        lines = Path("/proc/locks").read_text(encoding="ascii").splitlines()
    except OSError:
        return set()
    holders = set()
    for line in lines:
        # 1: POSIX  ADVISORY  READ 4242 fd:00:131077 1073741826 1073742335
        _, kind, *_, pid, where, first, last = line.split()
        if kind == "POSIX" and where == place and int(first) <= byte:
            holders |= {int(pid)} if last == "EOF" or byte <= int(last) else set()
    return holders - {os.getpid()}


def _may_have_open(pid: int, file: os.stat_result) -> bool:
    """Return whether a process has a file open; True if its open files cannot be read."""
    folder = f"/proc/{pid}/fd"
    try:
        for number in os.listdir(folder):  # noqa: PTH208 (paths are text here)
            found = _stat(f"{folder}/{number}")
            if found and os.path.samestat(found, file):
                return True
    except OSError:
        return True
    return False


def _stat(path: str) -> os.stat_result | None:
    try:
        return os.stat(path)  # noqa: PTH116 (paths are text here)
    except FileNotFoundError:
        return None
