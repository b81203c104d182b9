"""Faults of the worker processes and of the database file, and locks held by other processes."""

import contextlib
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.storage.sqlite.store import SQLiteStore
from support.load import Load
from support.postgres import wait_until
from support.service import PLANTSTORE, Service, stored_plants

# Runs a command to which file modes apply even as root: without CAP_DAC_OVERRIDE (prctl(2)).
WITHOUT_PRIVILEGE = """
import ctypes, os, sys
PR_CAPBSET_DROP, CAP_DAC_OVERRIDE = 24, 1
if os.geteuid() == 0:
    assert ctypes.CDLL(None).prctl(PR_CAPBSET_DROP, CAP_DAC_OVERRIDE, 0, 0, 0) == 0
os.execv(sys.argv[1], sys.argv[1:])
"""


def wait_for_workers(service: Service, number: int) -> set[int]:
    """Return the process ids of the workers once `number` workers have started in total."""
    wait_until(lambda: sum("accepting plants" in line for line in service.log) == number)
    return service.workers()


def is_stopped(pid: int) -> bool:
    status = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8")
    return status.rpartition(")")[2].split()[0] == "T"


@contextlib.contextmanager
def stopped(pid: int) -> Iterator[None]:
    """Suspend a process for the duration of the block, unless the process dies before."""
    os.kill(pid, signal.SIGSTOP)
    try:
        wait_until(lambda: is_stopped(pid))
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGCONT)


def test_a_killed_worker_is_replaced_and_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        token = service.token()
        first = Load(service, token, 0)
        first.wait_for_more(200)
        workers = wait_for_workers(service, 2)

        os.kill(min(workers), signal.SIGKILL)

        assert len(wait_for_workers(service, 3) - workers) == 1
        second = Load(service, token, 100_000_000)
        second.wait_for_more(200)
        service.stop()
        for load in (first, second):
            load.join()
            assert not load.refused

    stored = stored_plants(service.database)
    assert (first.acknowledged | second.acknowledged).items() <= stored.items()
    assert stored.items() <= (first.sent | second.sent).items()


def test_a_worker_that_hangs_is_replaced_and_the_others_serve_meanwhile(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        token = service.token()
        workers = wait_for_workers(service, 2)
        hung = min(workers)

        with stopped(hung):
            for id_ in range(20):
                client = service.client(token)
                assert client.post(NewPlant(id_, "a")).status == 200
                client.close()
            assert is_stopped(hung), "the worker no longer hangs"
            replaced = wait_for_workers(service, 3)

        assert hung not in replaced
        assert len(replaced - workers) == 1
        load = Load(service, token, 100)
        load.wait_for_more(200)
        service.stop()
        load.join()

    before = {id_: NewPlant(id_, "a") for id_ in range(20)}
    assert stored_plants(service.database) == before | load.acknowledged


def test_requests_sent_while_the_process_is_suspended_are_answered_when_it_resumes(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service:
        token = service.token()
        clients = [service.client(token) for _ in range(20)]
        for number, client in enumerate(clients[:10]):  # the others connect while it is suspended
            assert client.post(NewPlant(number, "before")).status == 200

        with stopped(service.process.pid):
            for number, client in enumerate(clients):
                body = b'{"id":%d,"name":"meanwhile"}' % (100 + number)
                client.connection.request("POST", "/plants", body, client.headers)

        assert [client.connection.getresponse().status for client in clients] == [200] * 20
        for client in clients:
            client.close()

    before = {id_: NewPlant(id_, "before") for id_ in range(10)}
    meanwhile = {100 + id_: NewPlant(100 + id_, "meanwhile") for id_ in range(20)}
    assert stored_plants(service.database) == before | meanwhile


def test_a_create_is_503_while_another_process_holds_the_write_lock_and_200_afterwards(
    tmp_path: Path,
) -> None:
    plant = NewPlant(1, "a")
    with Service(tmp_path) as service:
        client = service.client(service.token())
        assert client.send("GET", "/readyz").status == 200  # the service has opened its store
        with contextlib.closing(sqlite3.connect(tmp_path / "plants.db")) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = client.post(plant)
            other.rollback()

        assert (refused.status, refused.json["error"]) == (503, 5003)
        assert refused.headers["retry-after"] == "1"
        assert client.post(plant).status == 200
        client.close()

    assert stored_plants(service.database) == {1: plant}
    assert any("commit failed" in line for line in service.log)


@pytest.mark.parametrize(
    ("mode", "folder_mode", "said"),
    [
        (0o444, 0o700, "cannot be written: it is read-only for this user"),
        (0o600, 0o500, "cannot be opened: attempt to write a readonly database"),
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

    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_PRIVILEGE, *PLANTSTORE, "serve", "--port", "0"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    tmp_path.chmod(0o700)
    path.chmod(0o600)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == f"plantstore: The database plants.db {said}\n"
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
