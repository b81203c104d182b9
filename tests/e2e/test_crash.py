"""Every acknowledged change survives a crash, and of conflicting creates one is stored."""

import random
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.crashes import Crashes, kill_all
from support.histories import Operation, is_explained, play
from support.service import Service, plants_of_feed, stored_plants

# tests/long plays more.
ROUNDS = 2
CLIENTS = 6


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize("workers", [1, 2])
def test_every_acknowledged_plant_survives_kill_9_and_an_import_is_completed_by_sending_it_again(
    tmp_path: Path, workers: int
) -> None:
    """A killed import has left whole transactions."""
    crashes = Crashes(tmp_path, workers)

    for _ in range(ROUNDS):
        crashes.play_round()
    crashes.end()

    assert crashes.lost == set()
    assert len(crashes.acknowledged) > 0
    with Service(tmp_path) as service, service.client(crashes.token) as client:
        sent = sorted(crashes.sent.values(), key=lambda plant: plant.id)
        for plant in random.Random(0).sample(sent, 20):
            assert client.post(plant).status == 200, "sending a plant again was refused"


@pytest.mark.engines("sqlite", "postgres")
def test_every_acknowledged_replace_and_delete_survives_kill_9(
    tmp_path: Path, database: str
) -> None:
    barrier = threading.Barrier(CLIENTS + 1)
    with Service(tmp_path) as service, ThreadPoolExecutor(CLIENTS) as pool:
        token = service.token()
        played = [
            pool.submit(play, service.client(token), barrier, number, 10_000)
            for number in range(CLIENTS)
        ]
        with service.client(token) as client:
            barrier.wait(60)
            for _ in range(200):
                client.send("GET", "/readyz")
        kill_all(service)
        history = [operation for each in played for operation in each.result(120)]
    stored = stored_plants(database)
    assert plants_of_feed(database) == stored
    ended = time.monotonic()

    assert sum(operation.status == 0 for operation in history) == CLIENTS
    for id_ in range(3):
        left = stored.get(id_)
        saw = None if left is None else (left.name, left.tag)
        read = Operation(ended, ended, id_, "GET", 404 if left is None else 200, saw=saw)
        assert is_explained([*(each for each in history if each.id == id_), read])
