"""Starts `plantstore` by forking a process that has loaded its modules.

To load the modules takes half a second of CPU time, more than most tests need for all the rest. So
the fork server of `multiprocessing` loads them once. Everything else is as in production: the
forked process runs the command line, with its own folder, environment, output and signals.
"""

import atexit
import multiprocessing
import os
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final, NoReturn, TextIO

_CONTEXT: Final = multiprocessing.get_context("forkserver")
# The fork server runs the main module again in each process. It is pytest, unless xdist runs it.
_CONTEXT.set_forkserver_preload(
    ["plantstore.cli.serve", "plantstore.storage.postgres.postgres_store", "pytest"]
)


class ForkedProcess:
    """A process that was forked. Attributes and methods are those of `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        (out, its_out), (err, its_err) = (_CONTEXT.Pipe(duplex=False) for _ in range(2))
        given = (arguments, folder, dict(env), its_out, its_err)
        self._process = _CONTEXT.Process(target=_run, args=given)
        self._process.start()
        self.pid = self._process.pid or 0
        self.stdout, self.stderr = _text(out), _text(err)
        for connection in (out, its_out, err, its_err):
            connection.close()

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        return self._process.exitcode

    def wait(self, timeout: float) -> int:
        """Wait until the process ends, and return its exit status."""
        self._process.join(timeout)
        status = self.poll()
        if status is None:
            raise subprocess.TimeoutExpired("plantstore", timeout)
        return status

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)


def _text(connection: Connection) -> TextIO:
    return os.fdopen(os.dup(connection.fileno()), encoding="utf-8")


def _run(
    arguments: Sequence[str], folder: Path, env: Mapping[str, str], out: Connection, err: Connection
) -> NoReturn:
    from plantstore.cli import main  # noqa: PLC0415 (only this process needs it)

    for ours, standard in ((out, 1), (err, 2)):
        os.dup2(ours.fileno(), standard)
        ours.close()
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["plantstore", *arguments]
    # Before Python 3.13, `multiprocessing` runs no function that was registered with `atexit`.
    # The log is one of them: its last lines would be lost.
    atexit._clear()  # noqa: SLF001
    try:
        sys.exit(main())
    finally:
        atexit._run_exitfuncs()  # noqa: SLF001
