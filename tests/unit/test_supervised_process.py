"""A process that is kept running: its end, its hangs, and failures to start it."""

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.server import supervised_process
from plantstore.server.supervised_process import SupervisedProcess
from support.postgres import wait_until
from support.supervised import hang_at_first, live


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(supervised_process, "CHECK_SECONDS", 0.1)
    monkeypatch.setattr(supervised_process, "RESTART_SECONDS", 0.1)


@pytest.fixture
def keep(tmp_path: Path) -> Iterator[Callable[[Callable[..., None]], SupervisedProcess]]:
    """Return what keeps a process running until the end of the test."""
    kept: list[SupervisedProcess] = []

    def keep(target: Callable[..., None]) -> SupervisedProcess:
        kept.append(SupervisedProcess(target, tmp_path))
        return kept[-1]

    yield keep
    for process in kept:
        process.kill()
        assert process.join(60)


def started(folder: Path) -> set[int]:
    return {int(file.name) for file in folder.iterdir()}


def wait_for_first(folder: Path) -> int:
    wait_until(lambda: len(started(folder)) == 1)
    [pid] = started(folder)
    return pid


def test_no_other_process_is_started_after_a_stop(
    tmp_path: Path, keep: Callable[..., SupervisedProcess]
) -> None:
    process = keep(live)
    wait_for_first(tmp_path)

    process.stop()

    assert process.join(60)
    assert len(started(tmp_path)) == 1


def test_a_process_that_hangs_at_its_start_is_replaced(
    tmp_path: Path, keep: Callable[..., SupervisedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervised_process, "START_SECONDS", 2.0)
    monkeypatch.setattr(supervised_process, "HANG_SECONDS", 0.5)

    keep(hang_at_first)

    wait_until(lambda: len(started(tmp_path)) == 2)


def test_a_process_is_started_once_the_system_allows_it(
    tmp_path: Path, keep: Callable[..., SupervisedProcess], monkeypatch: pytest.MonkeyPatch
) -> None:
    refused = threading.Semaphore(0)
    spawn = multiprocessing.get_context("spawn")

    def refuse(*_args: object, **_options: object) -> None:
        refused.release()
        raise OSError("too many processes")

    process = keep(live)
    pid = wait_for_first(tmp_path)
    with monkeypatch.context() as patched:
        patched.setattr(spawn.Process, "start", refuse)
        os.kill(pid, signal.SIGKILL)
        for _ in range(2):
            assert refused.acquire(timeout=60)
        assert process.join(60)

    wait_until(lambda: len(started(tmp_path)) == 2)
