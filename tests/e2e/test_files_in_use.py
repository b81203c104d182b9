"""Database files are deleted, moved, replaced or truncated while they are in use."""

import signal
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.command import run
from support.files_in_use import ROWS, Row, play
from support.service import Service

# tests/long plays all rows, with one worker and with two.
SOME = [row for row in ROWS if row.fate == "deleted" or str(row) == "-wal truncated"]
WITH_WORKERS = [row for row in SOME if "-shm" in row.suffixes]


@pytest.mark.parametrize("row", SOME, ids=str)
def test_one_worker_loses_no_acknowledged_plant_unless_its_only_copy_is_destroyed(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=1, end=signal.SIGKILL)


@pytest.mark.parametrize("row", WITH_WORKERS, ids=str)
def test_two_workers_lose_no_acknowledged_plant_unless_its_only_copy_is_deleted(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=2, end=signal.SIGTERM)


def test_a_second_name_of_a_database_in_use_is_refused_and_creates_no_file(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        client = service.client(service.token())
        assert client.post(NewPlant(1, "Rosa")).status == 200
        (tmp_path / "second.db").hardlink_to(tmp_path / "plants.db")
        before = sorted(tmp_path.iterdir())

        done = run(tmp_path, "check", "--database", "sqlite:///second.db")

        assert (done.returncode, done.stdout) == (1, "")
        assert "in use by another process" in done.stderr
        assert sorted(tmp_path.iterdir()) == before
        assert client.post(NewPlant(2, "Rosa")).status == 200
        client.close()
