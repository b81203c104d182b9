"""Every acknowledged plant survives a crash."""

import random
from pathlib import Path

import pytest

from support.crashes import Crashes
from support.other_programs import engine_of
from support.service import Service


# tests/long kills more often, and the workers of SQLite, too.
@pytest.mark.engines("sqlite", "postgres")
def test_every_acknowledged_plant_survives_kill_9_and_an_import_is_completed_by_sending_it_again(
    tmp_path: Path, database: str
) -> None:
    """A killed import has left whole transactions."""
    crashes = Crashes(
        tmp_path, workers={"sqlite": 1, "postgres": 2}[engine_of(database)], batches=4
    )

    crashes.play_round()
    crashes.end()

    assert crashes.lost == set()
    assert len(crashes.acknowledged) > 0
    with Service(tmp_path) as service, service.client(crashes.token) as client:
        sent = sorted(crashes.sent.values(), key=lambda plant: plant.id)
        for plant in random.Random(0).sample(sent, 20):
            assert client.post(plant).status == 200, "sending a plant again was refused"
