"""A process that the parent of the workers keeps running."""

import contextlib
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.connection import Connection, wait
from typing import Final

# How often the parent checks that the process answers, and how long it waits for the answer.
CHECK_SECONDS: Final = 1.0
HANG_SECONDS: Final = 5.0

# How long the process may take to start.
START_SECONDS: Final = 60.0

# Pause before a process that could not start is started again.
RESTART_SECONDS: Final = 0.5


class SupervisedProcess:
    """Starts a process, and another one at once if it ends or hangs.

    Args:
        target: what the process runs. Its first argument is the connection for `answer_checks`.
        args: the other arguments.

    """

    def __init__(self, target: Callable[..., None], *args: object) -> None:
        self._target = target
        self._args = args
        self._lock = threading.Lock()
        self._stopped = threading.Event()
        self._start()
        threading.Thread(target=self._keep, name="keeper", daemon=True).start()

    def stop(self) -> None:
        """Send the process a SIGTERM, and start no other one."""
        with self._lock:
            self._stopped.set()
            self._process.terminate()

    def kill(self) -> None:
        """End the process at once, and start no other one."""
        with self._lock:
            self._stopped.set()
            self._process.kill()

    def join(self, seconds: float) -> bool:
        """Wait for the process to end. Return whether it has ended."""
        return bool(wait([self._process.sentinel], seconds))

    def _start(self) -> None:
        # A forked process would have copies of locks that no thread of it releases.
        spawn = multiprocessing.get_context("spawn")
        checks, theirs = spawn.Pipe()
        with theirs:
            # If this process ends without `stop`, it ends its daemons.
            process = spawn.Process(target=self._target, args=(theirs, *self._args), daemon=True)
            process.start()
        self._checks, self._process = checks, process

    # The methods below run on the thread.

    def _keep(self) -> None:
        while not self._stopped.is_set():
            could_start = self._answers(START_SECONDS)
            while self._answers(HANG_SECONDS):
                self.join(CHECK_SECONDS)
            with self._checks:
                self._process.kill()
                self._process.join()
            if not could_start:
                self._stopped.wait(RESTART_SECONDS)
            # If the system cannot start a process now, the next turn tries again.
            with self._lock, contextlib.suppress(OSError):
                if not self._stopped.is_set():
                    self._start()

    def _answers(self, seconds: float) -> bool:
        """Return whether the process answers in time."""
        with contextlib.suppress(OSError, EOFError):
            self._checks.send_bytes(b"?")
            if self._checks in wait([self._checks, self._process.sentinel], seconds):
                self._checks.recv_bytes()
                return True
        return False


def answer_checks(checks: Connection) -> None:
    """Answer the checks of the parent from now on, on a thread.

    When the parent has ended, this process gets a SIGTERM.
    """
    threading.Thread(target=_answer, args=(checks,), name="checks", daemon=True).start()


def _answer(checks: Connection) -> None:
    with contextlib.suppress(OSError, EOFError):
        while True:
            checks.recv_bytes()
            checks.send_bytes(b"!")
    os.kill(os.getpid(), signal.SIGTERM)
