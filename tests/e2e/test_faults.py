"""Killed processes, lost files, full disks, many clients at once: nothing acknowledged is lost."""

import contextlib
import itertools
import os
import random
import re
import shutil
import signal
import subprocess
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.crashes import Crashes
from support.histories import is_explained, play
from support.postgres import wait_until
from support.service import PLANTSTORE, Client, Service, stored_plants

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


# A disk that is really full.

DISK_BYTES = 4 * 1024 * 1024

# A few of them do not fit into the blocks that are already allocated to the log.
LARGE = "x" * 15_000

# The mount is visible only in its own namespace, and ends with the last process in it. A user who
# is not root can mount in a user namespace (`man 7 user_namespaces`).
MOUNT = 'mount -t tmpfs -o size="$1" plants "$2" && cd "$2" && echo mounted && exec cat'


class SmallDisk:
    """A disk of 4 MiB, mounted on a folder.

    Attributes:
        contents: the folder, as this process reaches it.
        command: the command that runs `plantstore` with the disk as its working directory.

    """

    def __init__(self, pid: int) -> None:
        self.contents = Path(f"/proc/{pid}/cwd")
        namespaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--mount"]
        enter = ["nsenter", *namespaces, "--preserve-credentials", f"--target={pid}", "--wd"]
        self.command = [*enter, *PLANTSTORE]

    def fill(self) -> None:
        """Fill the disk with a file."""
        filler = self.contents / "filler"
        with filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            file.writelines(itertools.repeat(bytes(4096)))

    def free(self) -> None:
        """Free the space that `fill` used."""
        (self.contents / "filler").unlink()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[SmallDisk]:
    """Mount a small disk on a folder; skip the test if the user may not mount."""
    folder = tmp_path / "disk"
    folder.mkdir()
    namespaces = ["--mount"] if os.geteuid() == 0 else ["--map-root-user", "--mount"]
    command = ["unshare", *namespaces, "sh", "-c", MOUNT, "sh", str(DISK_BYTES), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != "mounted\n":
            pytest.skip(f"may not mount a small disk: {process.stderr.read().strip()}")
        yield SmallDisk(process.pid)
        process.stdin.close()  # `cat` ends


@pytest.fixture
def token(disk: SmallDisk) -> str:
    command = [*disk.command, "token", "create", "test"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True)
    [token] = re.findall(r"plst_\w+", done.stdout)
    return str(token)


@contextlib.contextmanager
def serving_on(folder: Path, disk: SmallDisk, token: str) -> Iterator[tuple[Service, Client]]:
    with Service(folder, command=disk.command) as service, service.client(token) as client:
        yield service, client


def assert_all_are_read(client: Client, plants: dict[int, NewPlant]) -> None:
    for id_, plant in plants.items():
        answer = client.send("GET", f"/plants/{id_}")
        assert (answer.status, answer.json["name"]) == (200, plant.name)
    assert client.send("GET", "/plants?limit=1").status == 200


def test_a_full_disk_refuses_creates_and_serves_reads_also_after_a_crash_until_space_is_free(
    tmp_path: Path, disk: SmallDisk, token: str
) -> None:
    stored = {id_: NewPlant(id_, "Abies") for id_ in range(20)}
    large = [NewPlant(id_, LARGE) for id_ in range(20, 40)]
    with serving_on(tmp_path, disk, token) as (service, client):
        assert {client.post(plant).status for plant in stored.values()} == {200}
        assert client.send("GET", "/readyz").status == 200
        disk.fill()

        answers = {plant: client.post(plant) for plant in large}
        *_, last = answers.values()
        ready = client.send("GET", "/readyz")
        stored |= {plant.id: plant for plant in large if answers[plant].status == 200}
        assert_all_are_read(client, stored)
        service.wait_for_log("commit failed")
        service.stop(signal.SIGKILL)

    assert (last.status, last.json["error"], ready.status) == (503, 5003, 503)
    assert "sending it again is safe" in last.json["message"]
    assert "full" in ready.json["message"]
    with serving_on(tmp_path, disk, token) as (_, client):
        assert_all_are_read(client, stored)
        assert client.post(NewPlant(100, LARGE)).status == 503
        disk.free()
        assert {client.post(plant).status for plant in large} == {200}
        wait_until(lambda: client.send("GET", "/readyz").status == 200)

    copy = shutil.copytree(disk.contents, tmp_path / "copy")  # a folder that every process sees
    expected = stored | {plant.id: plant for plant in large}
    assert stored_plants(f"sqlite:///{copy}/plants.db") == expected
