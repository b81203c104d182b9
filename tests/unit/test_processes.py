"""Processes and threads: the parent of workers, their turns, their folder, and pools of threads."""

import asyncio
import contextlib
import fcntl
import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plantstore.observe import Event, WorkerFailed
from plantstore.server.process import Turnstile, shared_folder
from plantstore.server.supervisor import Supervisor
from support.postgres import wait_until

# The parent of workers, with small programs in place of the workers.

BRIEF = b"what a worker must know"

# The beginning of the programs.
PROGRAM = """
import os, signal, sys
from pathlib import Path

brief = sys.stdin.buffer.read(int(sys.argv[2]))

def first(name="first"):
    "Return whether this is the first worker that calls this."
    try:
        Path(sys.argv[1], name).touch(exist_ok=False)
        return True
    except FileExistsError:
        return False

def beat():
    os.write(1, b".")

def stop_the_parent():
    os.kill(os.getppid(), signal.SIGTERM)

def wait():
    while True:
        signal.pause()
"""


class Seen:
    """Observes failures, and stops the parent when it has seen `failures_max`."""

    def __init__(self, failures_max: int = 100) -> None:
        self.failures: list[WorkerFailed] = []
        self.slept: list[float] = []
        self._failures_max = failures_max

    def __call__(self, event: Event) -> None:
        assert isinstance(event, WorkerFailed)
        self.failures.append(event)
        if len(self.failures) == self._failures_max:
            signal.raise_signal(signal.SIGTERM)

    async def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        await asyncio.sleep(0)

    @property
    def reasons(self) -> list[str]:
        return [failure.reason for failure in self.failures]


def supervise(folder: Path, program: str, seen: Seen, workers: int = 1, **more: Any) -> int:
    """Run workers until one of them, or what observes them, sends SIGTERM."""
    arguments: dict[str, Any] = {
        "command": [sys.executable, "-c", PROGRAM + program, str(folder), str(len(BRIEF))],
        "brief": BRIEF,
        "listener": os.open(os.devnull, os.O_RDONLY),
        "workers": workers,
        "signals": [signal.SIGTERM],
        "stop_accepting": lambda: None,
        "drain_seconds": 0,
        "stop_seconds": 3600,
        "observe": seen,
        "beat_seconds": 0.02,
        "sleep": seen.sleep,
    }
    supervisor = Supervisor(**(arguments | more))
    try:
        return supervisor.run()
    finally:
        os.close(arguments["listener"])


def test_a_worker_that_still_starts_is_not_killed_while_others_hang(tmp_path: Path) -> None:
    """Each worker that hangs has missed more heartbeats than the one that starts may."""
    program = """
if first():
    Path(sys.argv[1], "starting").write_text(str(os.getpid()))
else:
    beat()
wait()
"""
    seen = Seen(failures_max=3)

    status = supervise(tmp_path, program, seen, workers=2)

    starting = int((tmp_path / "starting").read_text())
    assert status == 0
    assert seen.reasons == ["no heartbeat for 0.2 s"] * 3
    assert starting not in {failure.worker for failure in seen.failures}


def test_a_worker_whose_event_loop_hangs_is_replaced(tmp_path: Path) -> None:
    program = """
import asyncio
from plantstore.server.supervisor import report_to_parent

async def main():
    report_to_parent(0.02)
    await asyncio.sleep(1)  # 50 heartbeats
    wait() if first() else stop_the_parent()

asyncio.run(main())
"""
    seen = Seen()

    status = supervise(tmp_path, program, seen)

    assert status == 0
    # On a busy machine, the new worker may miss heartbeats, too.
    assert set(seen.reasons) == {"no heartbeat for 0.2 s"}


def test_a_worker_that_was_killed_is_replaced_by_one_with_the_same_brief(tmp_path: Path) -> None:
    program = f"""
assert brief == {BRIEF!r}
beat()
if first():
    os.kill(os.getpid(), signal.SIGKILL)
stop_the_parent()
wait()
"""
    seen = Seen()

    status = supervise(tmp_path, program, seen)

    assert status == 0
    assert seen.reasons == ["signal 9 (Killed)"]


@pytest.mark.parametrize(
    ("program", "pauses"),
    [("sys.exit(1)", [1, 2, 4, 8, 16, 30, 30]), ("beat(); sys.exit(1)", [1] * 7)],
    ids=["before its first heartbeat", "later"],
)
def test_there_is_a_pause_after_each_worker_that_fails(
    tmp_path: Path, program: str, pauses: list[float]
) -> None:
    seen = Seen(failures_max=8)

    supervise(tmp_path, program, seen)

    assert set(seen.reasons) == {"exit status 1"}
    assert seen.slept[:7] == pauses


def test_a_worker_that_cannot_be_started_is_tried_again(tmp_path: Path) -> None:
    seen = Seen(failures_max=3)

    supervise(tmp_path, "", seen, command=[tmp_path / "removed"])

    assert set(seen.reasons) == {"cannot be started: No such file or directory"}
    assert seen.slept[:2] == [1, 2]


def test_a_worker_that_does_not_stop_in_time_is_killed(tmp_path: Path) -> None:
    program = """
signal.signal(signal.SIGTERM, signal.SIG_IGN)
stop_the_parent()
wait()
"""

    status = supervise(tmp_path, program, Seen(), stop_seconds=0.1)

    assert status == 0


def test_a_signal_ends_the_pause_before_a_worker_is_replaced(tmp_path: Path) -> None:
    async def sleep(_seconds: float) -> None:
        await asyncio.sleep(30)
        pytest.fail("the parent did not stop")

    seen = Seen(failures_max=1)

    assert supervise(tmp_path, "sys.exit(3)", seen, sleep=sleep) == 0
    assert seen.reasons == ["exit status 3"]


# The turns of processes that write one file. Each turnstile here stands for a process.


def is_taken(lock: Path) -> bool:
    """Return whether somebody holds a lock."""
    with lock.open("rb") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False


@contextlib.contextmanager
def waiting(folder: Path, name: str, turns: list[str]) -> Iterator[None]:
    """Wait for a turn on a thread, which notes that it had it. The thread ends with the block."""
    turnstile = Turnstile(folder)

    def take() -> None:
        with turnstile:
            turns.append(name)

    thread = threading.Thread(target=take)
    thread.start()
    yield
    thread.join(60)


def test_a_process_that_waits_for_its_turn_is_the_next_one(tmp_path: Path) -> None:
    turns: list[str] = []
    turnstile = Turnstile(tmp_path)
    with contextlib.ExitStack() as stack:
        with turnstile:
            turns.append("first")
            stack.enter_context(waiting(tmp_path, "second", turns))
            wait_until(lambda: is_taken(tmp_path / "gate.lock"))
        with turnstile:
            turns.append("first")

    assert turns == ["first", "second", "first"]


ENDLESS = """
import pathlib, sys, threading
from plantstore.server.process import Turnstile

with Turnstile(pathlib.Path(sys.argv[1])):
    print("taken", flush=True)
    threading.Event().wait()
"""


def test_the_turn_of_a_process_that_is_killed_passes_to_the_next_one(tmp_path: Path) -> None:
    turns: list[str] = []
    command = [sys.executable, "-c", ENDLESS, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as killed:
        assert killed.stdout is not None
        assert killed.stdout.readline() == "taken\n"
        with waiting(tmp_path, "next", turns):
            assert not turns
            killed.kill()

    assert turns == ["next"]


def test_without_locks_of_the_kernel_everybody_has_a_turn(tmp_path: Path) -> None:
    """SQLite's own lock keeps them apart, and nobody waits forever."""
    turnstile = Turnstile(tmp_path)
    for file in Path("/proc/self/fd").iterdir():
        if os.path.realpath(file).startswith(f"{tmp_path}/"):
            os.close(int(file.name))  # as if the kernel had no memory for locks

    with turnstile:
        turns = ["first"]

    assert turns == ["first"]


# The folder that the workers of a service share.


def test_the_folder_of_a_service_that_was_killed_is_removed_at_the_next_start(
    tmp_path: Path,
) -> None:
    killed, mine = tmp_path / "plantstore-workers-killed", tmp_path / "plantstore-mine"
    for folder in (killed, mine):
        folder.mkdir()
        (folder / "counter_1.db").touch()
    with shared_folder(tmp_path) as first:
        for folder in (killed, mine, first):
            os.utime(folder, (0, 0))

        with shared_folder(tmp_path) as second:
            assert {*tmp_path.iterdir()} == {mine, first, second}

    assert [*tmp_path.iterdir()] == [mine]


# Pools of threads.


WITHOUT_ROOM = """
import resource, threading
from plantstore.threads import THREADS

threading.stack_size(2**28)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, used + 2**29))
try:
    THREADS.pool(8, "many")
except RuntimeError:
    print("refused")
"""


def test_a_pool_whose_threads_cannot_all_start_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ROOM], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "refused\n"
