"""Killed processes, lost files, and many clients at once: nothing acknowledged is lost."""

import os
import random
import shutil
import signal
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.command import run_unprivileged
from support.crashes import Crashes
from support.histories import is_explained, play
from support.load import Load
from support.postgres import wait_until
from support.service import Service, stored_plants
from support.undo_crashes import UndoCrashes

CLIENTS = 6
OPERATIONS = 80


@pytest.mark.engines("sqlite", "postgres")
def test_every_acknowledged_plant_survives_kill_9_and_an_import_is_completed_by_sending_it_again(
    tmp_path: Path,
) -> None:
    """A killed import has left whole transactions. tests/long kills more often, and workers."""
    crashes = Crashes(tmp_path, batches=4)

    crashes.play_round()
    crashes.end()

    assert crashes.lost == set()
    assert len(crashes.acknowledged) > 0
    with Service(tmp_path) as service, service.client(crashes.token) as client:
        sent = sorted(crashes.sent.values(), key=lambda plant: plant.id)
        for plant in random.Random(0).sample(sent, 20):
            assert client.post(plant).status == 200, "sending a plant again was refused"


@pytest.mark.engines("sqlite", "postgres")
def test_an_undo_that_is_killed_is_completed_by_sending_it_again(tmp_path: Path) -> None:
    crashes = UndoCrashes(tmp_path)

    crashes.play_round()

    assert crashes.wrong == []


@pytest.mark.engines("sqlite", "postgres")
def test_concurrent_changes_and_reads_are_linearizable_and_every_process_sees_them(
    tmp_path: Path,
) -> None:
    barrier = threading.Barrier(CLIENTS)
    with (
        Service(tmp_path, "--workers", "2") as one,
        Service(tmp_path) as another,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        token = one.token()
        played = [
            pool.submit(play, (one, another)[number % 2].client(token), barrier, number, OPERATIONS)
            for number in range(CLIENTS)
        ]
        history = [operation for each in played for operation in each.result(120)]

        with one.client(token) as writer, another.client(token) as reader:
            for id_ in range(1000, 1020):
                assert writer.post(NewPlant(id_, "a", "seen")).status == 200
                listed = reader.send("GET", f"/plants?after={id_ - 1}&tag=seen").json
                assert [plant["id"] for plant in listed] == [id_]
    history.sort(key=attrgetter("called"))

    assert {(o.method, o.status) for o in history} == {
        *(("POST", status) for status in (200, 400)),
        *(("GET", status) for status in (200, 404)),
        *(("PUT", status) for status in (200, 201, 404, 412)),
        *(("PATCH", status) for status in (200, 404, 412)),
        *(("DELETE", status) for status in (204, 404, 412)),
    }
    for id_ in {operation.id for operation in history}:
        about = [operation for operation in history if operation.id == id_]
        assert any(later.called < earlier.answered for earlier, later in pairwise(about))
        assert is_explained(about)


def wait_for_workers(service: Service, number: int) -> set[int]:
    """Return the process ids of the workers once `number` workers have started in total."""
    wait_until(lambda: sum("accepting plants" in line for line in service.log) == number)
    return service.workers()


def test_a_worker_that_is_killed_is_replaced_and_nothing_acknowledged_is_lost(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        workers = wait_for_workers(service, 2)
        load = Load(service, service.token(), 100)
        load.wait_for_more()

        killed = min(workers)
        os.kill(killed, signal.SIGKILL)
        wait_for_workers(service, 3)
        load.stop()

    failed = [(line["worker"], line["reason"]) for line in service.logged("worker failed")]
    assert failed == [(killed, "signal 9 (Killed)")]
    assert not load.refused
    stored = stored_plants(service.database)
    assert load.acknowledged.items() <= stored.items() <= load.sent.items()


def test_a_new_worker_uses_nothing_that_is_in_place_of_the_removed_folder_of_the_workers(
    tmp_path: Path,
) -> None:
    others = tmp_path / "others"
    others.mkdir()
    with Service(tmp_path, "--workers", "2") as service:
        workers = wait_for_workers(service, 2)
        files = [file.readlink() for file in Path(f"/proc/{min(workers)}/fd").iterdir()]
        [lock] = [file for file in files if file.name == "turn.lock"]
        shutil.rmtree(lock.parent)
        lock.parent.symlink_to(others)
        try:
            for pid in workers:
                os.kill(pid, signal.SIGKILL)
            wait_for_workers(service, 4)
            with service.client(service.token()) as client:
                assert client.post(NewPlant(1, "a")).status == 200
        finally:
            lock.parent.unlink()

    assert not [*others.iterdir()]


def test_a_new_worker_refuses_a_copy_in_place_of_a_file_that_was_in_use(tmp_path: Path) -> None:
    file = tmp_path / "plants.db"
    with Service(tmp_path, "--workers", "2") as service:
        workers = wait_for_workers(service, 2)
        file.rename(f"{file}.kept")
        shutil.copyfile(f"{file}.kept", file)

        os.kill(min(workers), signal.SIGKILL)

        service.wait_for_log("plantstore: The database file was moved, replaced")


@pytest.mark.parametrize(
    ("mode", "folder_mode", "said"),
    [
        (
            0o444,
            0o755,
            "may not be written by this user; run the command as the user of the servic",
        ),
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
    assert (done.returncode, done.stdout, done.stderr.count("\n")) == (1, "", 1)
    assert done.stderr.startswith(f"plantstore: The database plants.db {said}")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
