"""What kept processes run in tests."""

import os
import threading
from multiprocessing.connection import Connection
from pathlib import Path

from plantstore.server.supervised_process import answer_checks


def live(checks: Connection, folder: Path) -> None:
    """Leave a file with the process id, and answer until a signal."""
    answer_checks(checks)
    (folder / str(os.getpid())).touch()
    threading.Event().wait()


def hang_at_first(checks: Connection, folder: Path) -> None:
    """Hang before the first answer; a later process lives."""
    if not list(folder.iterdir()):
        (folder / str(os.getpid())).touch()
        threading.Event().wait()
    live(checks, folder)
