"""What operators do to the files of a database while it is in use."""

import signal
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.command import run
from support.files_in_use import ROWS, Row, play
from support.service import Service

pytestmark = pytest.mark.engines("sqlite")

# With two workers, tests/long plays all of them.
WITH_WORKERS = [row for row in ROWS if row.fate == "deleted" and row.suffixes != ("-wal",)]


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_is_acknowledged_is_there_whatever_befalls_the_files_in_use(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=1, end=signal.SIGKILL)


@pytest.mark.parametrize("row", WITH_WORKERS, ids=str)
def test_what_workers_acknowledged_is_there_whatever_befalls_their_files(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=2, end=signal.SIGTERM)


def test_a_second_name_of_a_database_in_use_is_refused_and_no_file_is_made(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        client = service.client(service.token())
        assert client.post(NewPlant(1, "Rosa")).status == 200
        (tmp_path / "second.db").hardlink_to(tmp_path / "plants.db")
        before = sorted(tmp_path.iterdir())

        done = run(tmp_path, "check", "--database", "sqlite:///second.db")

        assert (done.returncode, done.stdout) == (1, "")
        assert f"in use by process {service.process.pid}" in done.stderr
        assert sorted(tmp_path.iterdir()) == before
        assert client.post(NewPlant(2, "Rosa")).status == 200
        client.close()
