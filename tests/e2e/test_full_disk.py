"""A server whose disk is really full: it refuses to store, goes on reading, and stores again."""

import itertools
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.postgres import wait_until
from support.service import Answer, Client, Service, stored_plants

DISK_BYTES = 4 * 1024 * 1024

# More than the log has room for in blocks that it has already.
LARGE = "x" * 50_000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Return a folder that is a small disk of its own."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "plants", str(folder)]
    try:
        subprocess.run(mount, check=True, capture_output=True, text=True)
    except FileNotFoundError:
        pytest.skip("there is no `mount` to make a small disk with")
    except subprocess.CalledProcessError as error:
        pytest.skip(f"no small disk may be mounted here: {error.stderr.strip()}")
    try:
        yield folder
    finally:
        # Lazily, whatever a failed test has left open on it.
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def fill(path: Path) -> None:
    """Make a file that takes all the room that its disk has left."""
    with path.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space left"):
        file.writelines(itertools.repeat(bytes(4096)))


def assert_all_are_read(client: Client, plants: dict[int, NewPlant]) -> None:
    for id_, plant in plants.items():
        answer = client.send("GET", f"/plants/{id_}")
        assert (answer.status, answer.json["name"]) == (200, plant.name)
    listed = client.send("GET", "/plants?limit=1")
    assert (listed.status, len(listed.json)) == (200, 1)


@pytest.mark.engines("sqlite")
def test_on_a_full_disk_what_is_stored_is_read_and_with_room_again_more_is_stored(
    disk: Path,
) -> None:
    stored: dict[int, NewPlant] = {}
    refused: list[tuple[NewPlant, Answer]] = []
    with Service(disk) as service:
        client = service.client(service.token())
        ids = itertools.count()

        def post(name: str) -> None:
            plant = NewPlant(next(ids), name)
            answer = client.post(plant)
            if answer.status == 200:
                stored[plant.id] = plant
            else:
                refused.append((plant, answer))

        for _ in range(20):
            post("Abies")
        fill(disk / "filler")
        for _ in range(20):
            post(LARGE)
            assert_all_are_read(client, stored)

        assert len(refused) > 10
        assert {answer.status for _, answer in refused} == {503}
        assert {answer.json["error"] for _, answer in refused} == {5003}
        assert {answer.headers["retry-after"] for _, answer in refused} == {"1"}
        (disk / "filler").unlink()
        for plant, _ in refused:
            assert client.post(plant).status == 200
            stored[plant.id] = plant
        assert_all_are_read(client, stored)
        client.close()

    assert stored_plants(service.database) == stored


@pytest.mark.engines("sqlite")
def test_on_a_full_disk_it_is_not_ready_and_with_room_again_it_is(disk: Path) -> None:
    with Service(disk) as service:
        client = service.client(service.token())

        def ready() -> list[int]:
            return [client.send(method, "/readyz").status for method in ("GET", "HEAD")]

        assert ready() == [200, 200]
        fill(disk / "filler")
        assert client.post(NewPlant(1, LARGE * 10)).status == 503
        assert ready() == [503, 503]
        assert "full" in client.send("GET", "/readyz").json["message"]
        (disk / "filler").unlink()
        wait_until(lambda: ready() == [200, 200])
        assert client.post(NewPlant(1, LARGE * 10)).status == 200
        client.close()


@pytest.mark.engines("sqlite")
def test_after_a_crash_on_a_full_disk_it_starts_and_reads(disk: Path) -> None:
    plants = {id_: NewPlant(id_, "Abies") for id_ in range(20)}
    with Service(disk) as service:
        token = service.token()
        client = service.client(token)
        assert {client.post(plant).status for plant in plants.values()} == {200}
        fill(disk / "filler")
        service.stop(signal.SIGKILL)
        client.close()

    with Service(disk) as service:
        client = service.client(token)
        assert_all_are_read(client, plants)
        # The log has room for some in blocks that it has already.
        assert client.post(NewPlant(100, LARGE * 10)).status == 503
        (disk / "filler").unlink()
        assert client.post(NewPlant(100, LARGE * 10)).status == 200
        client.close()
