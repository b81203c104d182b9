"""A service on a disk that is really full: creates fail, reads work, and it recovers."""

import contextlib
import itertools
import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.postgres import wait_until
from support.service import PLANTSTORE, Answer, Client, Service, stored_plants

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
def serving(folder: Path, disk: SmallDisk, token: str) -> Iterator[tuple[Service, Client]]:
    with Service(folder, command=disk.command) as service, service.client(token) as client:
        yield service, client


def assert_all_are_read(client: Client, plants: dict[int, NewPlant]) -> None:
    for id_, plant in plants.items():
        answer = client.send("GET", f"/plants/{id_}")
        assert (answer.status, answer.json["name"]) == (200, plant.name)
    assert client.send("GET", "/plants?limit=1").status == 200


def test_a_full_disk_refuses_creates_and_serves_reads_and_is_ready_again_once_space_is_free(
    tmp_path: Path, disk: SmallDisk, token: str
) -> None:
    stored: dict[int, NewPlant] = {}
    refused: list[tuple[NewPlant, Answer]] = []
    with serving(tmp_path, disk, token) as (service, client):

        def ready() -> int:
            return client.send("GET", "/readyz").status

        def post(plant: NewPlant) -> None:
            answer = client.post(plant)
            if answer.status == 200:
                stored[plant.id] = plant
            else:
                refused.append((plant, answer))

        for id_ in range(20):
            post(NewPlant(id_, "Abies"))
        assert ready() == 200
        disk.fill()
        for id_ in range(20, 50):  # the first ones may fit
            if len(refused) <= 3:
                post(NewPlant(id_, LARGE))

        assert_all_are_read(client, stored)
        assert ready() == 503
        assert "full" in client.send("GET", "/readyz").json["message"]
        assert len(refused) > 3
        assert {(answer.status, answer.json["error"]) for _, answer in refused} == {(503, 5003)}
        assert "sending it again is safe" in refused[0][1].json["message"]
        disk.free()
        for plant, _ in refused:
            assert client.post(plant).status == 200
            stored[plant.id] = plant
        wait_until(lambda: ready() == 200)

    copy = shutil.copytree(disk.contents, tmp_path / "copy")  # a folder that every process sees
    assert stored_plants(f"sqlite:///{copy}/plants.db") == stored
    assert service.has_logged("commit failed")


def test_after_a_crash_on_a_full_disk_the_service_starts_and_serves_reads(
    tmp_path: Path, disk: SmallDisk, token: str
) -> None:
    plants = {id_: NewPlant(id_, "Abies") for id_ in range(20)}
    with serving(tmp_path, disk, token) as (service, client):
        assert {client.post(plant).status for plant in plants.values()} == {200}
        disk.fill()
        service.stop(signal.SIGKILL)

    with serving(tmp_path, disk, token) as (_, client):
        assert_all_are_read(client, plants)
        # Small plants may fit into blocks that are already allocated to the log.
        statuses = [client.post(NewPlant(100 + id_, LARGE)).status for id_ in range(12)]
        assert statuses[-3:] == [503] * 3
        disk.free()
        assert client.post(NewPlant(200, LARGE)).status == 200
