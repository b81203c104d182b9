"""Every acknowledged change survives a crash, and of conflicting creates one is stored."""

import contextlib
import random
import threading
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.crashes import Crashes, kill_all
from support.load import ChangingLoad
from support.service import Service, stored_plants

# tests/long plays more.
ROUNDS = 2


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize("workers", [1, 2])
def test_every_acknowledged_plant_survives_kill_9(tmp_path: Path, workers: int) -> None:
    crashes = Crashes(tmp_path, workers)

    for number in range(ROUNDS):
        crashes.play_round(with_import=number == 0)

    assert crashes.lost == set()
    assert len(crashes.acknowledged) > 0
    with Service(tmp_path) as service, contextlib.closing(service.client(crashes.token)) as client:
        sent = sorted(crashes.sent.values(), key=lambda plant: plant.id)
        for plant in random.Random(0).sample(sent, 20):
            assert client.post(plant).status == 200, "sending a plant again was refused"


@pytest.mark.engines("sqlite", "postgres")
def test_every_acknowledged_replace_and_delete_survives_kill_9(tmp_path: Path) -> None:
    moments = random.Random(2)
    stored: dict[int, NewPlant] = {}
    token = ""

    for _ in range(ROUNDS):
        with Service(tmp_path) as service:
            token = token or service.token()
            load = ChangingLoad(service, token, stored)
            load.wait_for(moments.randrange(50, 300))
            kill_all(service)
            load.join()
        stored = stored_plants(service.database)
        for id_ in stored.keys() | load.acknowledged.keys():
            unanswered = [load.possible[id_]] if id_ in load.possible else []
            assert stored.get(id_) in [load.acknowledged.get(id_), *unanswered]


def test_workers_share_one_file_and_one_of_several_conflicting_creates_succeeds(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        token = service.token()
        won: list[NewPlant] = []
        statuses: list[int] = []

        def race(number: int) -> None:
            for id_ in range(50):
                client = service.client(token)  # a new connection, so either worker takes it
                plant = NewPlant(id_, f"by {number}")
                answer = client.post(plant)
                client.close()
                statuses.append(answer.status)
                if answer.status == 200:
                    won.append(plant)

        threads = [threading.Thread(target=race, args=(number,)) for number in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    assert sorted(statuses) == [200] * 50 + [400] * 150
    assert stored_plants(service.database) == {plant.id: plant for plant in won}
    assert not any("failed" in line for line in service.log)
