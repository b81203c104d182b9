"""Faults of the worker processes and of the database file."""

import contextlib
import os
import shutil
import signal
from functools import partial
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.command import run_unprivileged
from support.load import Load
from support.postgres import wait_until
from support.service import Service, stored_plants


def wait_for_workers(service: Service, number: int) -> set[int]:
    """Return the process ids of the workers once `number` workers have started in total."""
    wait_until(lambda: sum("accepting plants" in line for line in service.log) == number)
    return service.workers()


def is_stopped(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return status.rpartition(")")[2].split()[0] == "T"


def open_files(pid: int) -> dict[Path, int]:
    """Return the descriptors of a process by the paths of the files."""
    files = {}
    for file in Path(f"/proc/{pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
            files[file.readlink()] = int(file.name)
    return files


def has_the_turn(pid: int) -> bool:
    """Return whether a worker has the turn to write (proc_pid_fdinfo(5))."""
    [turn] = [number for file, number in open_files(pid).items() if file.name == "turn.lock"]
    return "lock:" in Path(f"/proc/{pid}/fdinfo/{turn}").read_text(encoding="ascii")


def suspend_in_its_turn(service: Service) -> int:
    """Suspend a worker that has the turn to write; the service is under load."""
    while True:
        wait_until(lambda: any(map(has_the_turn, service.workers())))
        for pid in filter(has_the_turn, service.workers()):
            os.kill(pid, signal.SIGSTOP)
            wait_until(partial(is_stopped, pid))
            if has_the_turn(pid):
                return pid
            os.kill(pid, signal.SIGCONT)


def test_a_worker_that_is_killed_or_hangs_in_its_turn_is_replaced_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        token = service.token()
        workers = wait_for_workers(service, 2)
        loads = [Load(service, token, 100)]
        loads[0].wait_for_more()
        killed = suspend_in_its_turn(service)
        os.kill(killed, signal.SIGKILL)
        second = wait_for_workers(service, 3)
        loads.append(Load(service, token, 10**9))
        loads[1].wait_for_more()
        hung = suspend_in_its_turn(service)
        third = wait_for_workers(service, 4)
        with service.client(token) as client:
            assert client.post(NewPlant(1, "a")).status == 200
        for load in loads:
            load.stop()

        assert len(second - workers) == 1
        assert hung not in third
        assert len(third - second) == 1
    failed = [(line["worker"], line["reason"]) for line in service.logged("worker failed")]
    assert failed == [(killed, "signal 9 (Killed)"), (hung, "no heartbeat for 10 s")]
    assert not any(load.refused for load in loads)
    stored = stored_plants(service.database)
    sent = {1: NewPlant(1, "a")} | loads[0].sent | loads[1].sent
    assert stored.items() <= sent.items()
    assert all(load.acknowledged.items() <= stored.items() for load in loads)


def test_a_new_worker_uses_nothing_that_is_in_place_of_the_removed_folder_of_the_workers(
    tmp_path: Path,
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    with Service(tmp_path, "--workers", "2") as service:
        token = service.token()
        workers = wait_for_workers(service, 2)
        [lock] = {file for file in open_files(min(workers)) if file.name == "turn.lock"}
        shutil.rmtree(lock.parent)
        lock.parent.symlink_to(others)
        try:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            wait_for_workers(service, 4)
            with service.client(token) as client:
                assert client.post(NewPlant(1, "a")).status == 200
        finally:
            lock.parent.unlink()

    assert not [*others.iterdir()]


@pytest.mark.parametrize("suffix", ["", "-wal", "-shm"])
def test_a_new_worker_refuses_a_copy_in_place_of_a_file_that_was_in_use(
    tmp_path: Path, suffix: str
) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        workers = wait_for_workers(service, 2)
        file = tmp_path / f"plants.db{suffix}"
        file.rename(f"{file}.kept")
        shutil.copyfile(f"{file}.kept", file)

        os.kill(min(workers), signal.SIGKILL)

        service.wait_for_log(f"plantstore: The {suffix or 'database'} file was moved, replaced")


READ_ONLY = "may not be written by this user; run the command as the user of the service"


@pytest.mark.parametrize(
    ("mode", "folder_mode", "said"),
    [
        (0o444, 0o755, READ_ONLY),
        (0o666, 0o555, "cannot be opened: attempt to write a readonly database"),
    ],
)
def test_an_unwritable_file_or_folder_is_a_one_line_error_and_stays_unchanged(
    tmp_path: Path, mode: int, folder_mode: int, said: str
) -> None:
    path = tmp_path / "plants.db"
    SQLiteStore(str(path)).close()
    before = path.read_bytes()
    path.chmod(mode)
    tmp_path.chmod(folder_mode)

    done = run_unprivileged(tmp_path, "serve", "--port", "0")

    tmp_path.chmod(0o700)
    path.chmod(0o600)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"plantstore: The database plants.db {said}\n"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
