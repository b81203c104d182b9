"""The turns of processes that write one file. Each turnstile here stands for a process."""

import contextlib
import fcntl
import os
import stat
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

from plantstore.commit.writer import Turnstile
from support.postgres import wait_until


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
from plantstore.commit.writer import Turnstile

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
    """SQLite's own lock keeps them apart, and nobody waits for ever."""
    turnstile = Turnstile(tmp_path)
    for file in Path("/proc/self/fd").iterdir():
        if os.path.realpath(file).startswith(f"{tmp_path}/"):
            os.close(int(file.name))  # as if the kernel had no memory for locks

    with turnstile:
        turns = ["first"]

    assert turns == ["first"]


def test_the_files_of_the_locks_belong_to_this_user_alone(tmp_path: Path) -> None:
    Turnstile(tmp_path)

    modes = {file.name: stat.S_IMODE(file.stat().st_mode) for file in tmp_path.iterdir()}
    assert modes == {"gate.lock": 0o600, "turn.lock": 0o600}
