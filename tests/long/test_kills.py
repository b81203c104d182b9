"""Hundreds of kills at random moments."""

import os
import signal
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.crashes import Crashes
from support.postgres import Programs, Server, wait_until
from support.service import Service


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str | None:
    """Return the URL of an empty database, or None for SQLite in the folder of the test."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


@pytest.mark.parametrize(
    ("database", "workers", "rounds"),
    [("sqlite", 1, 100), ("sqlite", 3, 30), ("postgres", 2, 20)],
    indirect=["database"],
)
def test_every_acknowledged_plant_survives_every_kill(
    tmp_path: Path, database: str | None, workers: int, rounds: int
) -> None:
    crashes = Crashes(tmp_path, workers, database)

    for _ in range(rounds):
        crashes.play_round()
    crashes.end()

    assert crashes.lost == set()
    assert len(set(crashes.kept)) > 5, "the kills were not at different moments"


def test_a_worker_that_died_while_postgresql_was_down_is_replaced(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with (
        Server(postgres_programs, "away") as server,
        Service(tmp_path, "--workers", "2", database=server.url()) as service,
    ):
        token = service.token()
        with service.client(token) as client:
            assert client.post(NewPlant(1, "a")).status == 200
            server.stop()
            messages = [client.post(NewPlant(2, "b")).json["message"] for _ in range(5)]
        assert messages[-1] == "The database cannot be reached; nothing was done"
        service.wait_for_log("commit failed")

        before = len(service.log)
        for pid in service.children():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: any("cannot be reached" in line for line in service.log[before:]))
        server.start()

        with service.client(token) as client:
            assert client.post(NewPlant(2, "b")).status == 200
