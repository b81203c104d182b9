"""Starts `plantstore` by forking a process that has loaded its modules.

To load the modules takes half a second of CPU time, more than most tests need for all the rest. So
one process loads them, and forks itself for each service. Everything else is as in production: the
forked process runs the command line, with its own folder, environment, output and signals.

The process forks twice. The first child waits for the service, which is its own child, and tells
the tests its process id and later its exit status.
"""

import atexit
import functools
import gc
import json
import os
import select
import signal
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final, NoReturn, TextIO

_MESSAGE_BYTES_MAX: Final = 128 * 1024


class ForkedProcess:
    """A process that was forked. Attributes and methods are those of `subprocess.Popen`."""

    def __init__(self, arguments: Sequence[str], folder: Path, env: Mapping[str, str]) -> None:
        self._arguments = arguments
        self.returncode: int | None = None
        pipes = [os.pipe() for _ in range(3)]
        message = json.dumps([arguments, str(folder), dict(env)]).encode()
        socket.send_fds(_channel(), [message], [writes for _, writes in pipes])
        for _, writes in pipes:
            os.close(writes)
        (out, _), (err, _), (told, _) = pipes
        self.stdout: TextIO = os.fdopen(out, encoding="utf-8")
        self.stderr: TextIO = os.fdopen(err, encoding="utf-8")
        self._told: TextIO = os.fdopen(told, encoding="ascii")
        self.pid = int(self._told.readline())

    def poll(self) -> int | None:
        """Return the exit status; None while the process runs."""
        return self._ended(0)

    def wait(self, timeout: float) -> int:
        """Wait until the process ends, and return its exit status."""
        status = self._ended(timeout)
        if status is None:
            raise subprocess.TimeoutExpired(list(self._arguments), timeout)
        return status

    def _ended(self, seconds: float) -> int | None:
        if self.returncode is None and select.select([self._told], [], [], seconds)[0]:
            self.returncode = int(self._told.readline())
            self._told.close()
        return self.returncode

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal, unless the process has ended."""
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        """Kill the process."""
        self.send_signal(signal.SIGKILL)


@functools.cache
def _channel() -> socket.socket:
    """Start the process that forks itself; return the socket that it reads."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with theirs:
        process = subprocess.Popen(
            [sys.executable, __file__, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdin=subprocess.DEVNULL,
        )

    def end() -> None:
        ours.close()
        process.wait(60)

    atexit.register(end)
    return ours


def _serve(channel: socket.socket) -> None:
    """Fork for each message, until the other end of the channel is closed."""
    from plantstore.cli import serve  # noqa: F401, PLC0415 (only this process needs it)
    from plantstore.storage.postgres import store  # noqa: F401, PLC0415

    gc.freeze()  # a collection in a forked process would copy all memory
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the kernel reaps the first children
    while True:
        message, descriptors, _, _ = socket.recv_fds(channel, _MESSAGE_BYTES_MAX, 3)
        if not message:
            return
        if os.fork() == 0:
            channel.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            _watch(message, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _watch(message: bytes, descriptors: Sequence[int]) -> NoReturn:
    """Fork the service; tell its process id, and its exit status when it has ended."""
    *outputs, told = descriptors
    pid = os.fork()
    if pid == 0:
        os.close(told)
        _run(message, outputs)
    for output in outputs:
        os.close(output)
    os.write(told, b"%d\n" % pid)
    _, status = os.waitpid(pid, 0)
    os.write(told, b"%d\n" % os.waitstatus_to_exitcode(status))
    os._exit(0)


def _run(message: bytes, descriptors: Sequence[int]) -> NoReturn:
    from plantstore.cli import main  # noqa: PLC0415

    arguments, folder, env = json.loads(message)
    for ours, standard in zip(descriptors, (1, 2), strict=True):
        os.dup2(ours, standard)
        os.close(ours)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(env)
    sys.argv = ["plantstore", *arguments]
    sys.exit(main())


if __name__ == "__main__":
    with socket.socket(fileno=int(sys.argv[1])) as inherited:
        _serve(inherited)
