"""The parent of several workers. It replaces those that die or hang.

Theory of operation
-------------------
The parent has threads and an open database, which a fork would damage. So it starts each worker by
`exec`. The worker inherits the listener, and two pipes connect it with its parent:

- The parent writes a brief to the worker's stdin, and does not close it. If the worker reads the
  end of the file, the parent has ended, and the worker stops. Otherwise it would hold the port
  forever.
- The event loop of the worker writes a heartbeat to its stdout every BEAT_SECONDS.

The parent waits BEAT_SECONDS for each heartbeat. If it has waited MISSED_BEATS_MAX times without
one, the worker hangs and is killed. The parent does not count before the first heartbeat: on a slow
machine, a worker imports its modules for a minute. It counts waits and measures no time: the
machine, the container or the shell may suspend it together with its workers.
"""

import asyncio
import contextlib
import os
import signal
from asyncio import StreamReader, StreamWriter
from asyncio.subprocess import PIPE, Process
from collections.abc import Awaitable, Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final, cast

from plantstore.observe import Observer, WorkerFailed

BEAT_SECONDS: Final = 1.0

# Short enough that a worker that hangs soon gives up its turn to write, and long enough for a tenth
# of a core: there, an event loop that computes for half a second sends no heartbeat for five.
MISSED_BEATS_MAX: Final = 10

# Pause before a worker is replaced, because the next one may fail as soon as it starts. It doubles
# while workers end before their first heartbeat.
RESTART_SECONDS: Final = 1.0
RESTART_SECONDS_MAX: Final = 30.0

_STDIN: Final = 0
_STDOUT: Final = 1


@dataclass
class Supervisor:
    """Runs several workers until a signal. A second signal ends all of them immediately.

    Attributes:
        command: runs a worker.
        brief: what a worker reads from its stdin.
        listener: the descriptor that the workers inherit.
        workers: how many there are.
        signals: stop the workers.
        stop_accepting: is called when the workers accept no more connections. Otherwise the kernel
            would accept them for this process, which has the listener open.
        drain_seconds: the time from a signal until then.
        stop_seconds: how long they may take to end after a signal before they are killed.
        observe: gets the events.
        beat_seconds: how long to wait for a heartbeat.
        sleep: waits for a number of seconds.

    """

    command: Sequence[str]
    brief: bytes
    listener: int
    workers: int
    signals: Iterable[signal.Signals]
    stop_accepting: Callable[[], object]
    drain_seconds: float
    stop_seconds: float
    observe: Observer
    beat_seconds: float = BEAT_SECONDS
    sleep: Callable[[float], Awaitable[object]] = asyncio.sleep
    _pids: set[int] = field(default_factory=set, init=False)
    _stopping: asyncio.Event = field(default_factory=asyncio.Event, init=False)
    _status: int = field(default=0, init=False)

    def run(self) -> int:
        """Run the workers until a signal; return the exit status of the service."""
        return asyncio.run(self._run())

    async def _run(self) -> int:
        loop = asyncio.get_running_loop()
        for number in self.signals:
            loop.add_signal_handler(number, self._on_signal, number)
        await asyncio.gather(*(self._keep_running() for _ in range(self.workers)))
        return self._status

    def _on_signal(self, number: int) -> None:
        if not self._stopping.is_set():
            self._stop()
        elif number != signal.SIGHUP:  # a terminal that is closed may send it twice
            self._status = 128 + number
            _send(signal.SIGKILL, self._pids)  # all that was acknowledged is on disk

    def _stop(self) -> None:
        self._stopping.set()
        _send(signal.SIGTERM, self._pids)
        loop = asyncio.get_running_loop()
        loop.call_later(self.drain_seconds, self.stop_accepting)
        loop.call_later(self.stop_seconds, _send, signal.SIGKILL, self._pids)

    async def _keep_running(self) -> None:
        """Run a worker, and another one whenever it has failed."""
        pause = 0.0
        while not self._stopping.is_set():
            has_served = False
            try:
                process = await asyncio.create_subprocess_exec(
                    *self.command,
                    stdin=PIPE,
                    stdout=PIPE,
                    pass_fds=[self.listener],
                    process_group=0,  # Ctrl-C reaches the parent alone, which passes it on
                )
            except OSError as error:  # such as too little memory
                self.observe(WorkerFailed(None, f"cannot be started: {error.strerror}"))
            else:
                has_served = await self._supervise(process)
            if not self._stopping.is_set():
                doubled = 0 if has_served else min(2 * pause, RESTART_SECONDS_MAX)
                pause = max(RESTART_SECONDS, doubled)
                await self._pause(pause)

    async def _pause(self, seconds: float) -> None:
        """Wait, but not longer than until a signal."""
        ends = [asyncio.ensure_future(end) for end in (self.sleep(seconds), self._stopping.wait())]
        await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
        for end in ends:
            end.cancel()

    async def _supervise(self, process: Process) -> bool:
        """Wait until a worker has ended, and kill it if it hangs. Return whether it has served."""
        self._pids.add(process.pid)
        if self._stopping.is_set():  # the signal came while it was started
            _send(signal.SIGKILL, [process.pid])
        cast("StreamWriter", process.stdin).write(self.brief)
        hangs, has_served = await self._follow(cast("StreamReader", process.stdout))
        if hangs:
            _send(signal.SIGKILL, [process.pid])
        status = await process.wait()
        self._pids.remove(process.pid)
        if self._stopping.is_set():
            return has_served
        reason = f"exit status {status}"
        if hangs:
            reason = f"no heartbeat for {MISSED_BEATS_MAX * self.beat_seconds:g} s"
        elif status < 0:
            reason = f"signal {-status} ({signal.strsignal(-status)})"
        self.observe(WorkerFailed(process.pid, reason))
        return has_served

    async def _follow(self, beats: StreamReader) -> tuple[bool, bool]:
        """Read heartbeats until a worker has ended, or hangs.

        Returns:
            Whether it hangs, and whether there was a heartbeat.

        """
        has_served, missed = False, 0
        while missed < MISSED_BEATS_MAX:
            try:
                async with asyncio.timeout(self.beat_seconds):
                    if not await beats.read(1024):
                        return False, has_served
                has_served, missed = True, 0
            except TimeoutError:
                if has_served and not self._stopping.is_set():
                    missed += 1
        return True, True


def _send(number: signal.Signals, pids: Iterable[int]) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, number)


def report_to_parent(beat_seconds: float = BEAT_SECONDS) -> None:
    """Send heartbeats to the parent, and stop this worker when the parent has ended.

    Call it on the running event loop, when SIGTERM is handled.
    """
    loop = asyncio.get_running_loop()

    def beat() -> None:
        with contextlib.suppress(OSError):  # the parent has ended, or has been suspended for hours
            os.write(_STDOUT, b".")
        loop.call_later(beat_seconds, beat)

    def stop() -> None:
        loop.remove_reader(_STDIN)
        signal.raise_signal(signal.SIGTERM)

    os.set_blocking(_STDOUT, False)
    loop.add_reader(_STDIN, stop)
    beat()
