"""Database files are deleted, moved, replaced or truncated while they are in use."""

import signal
from pathlib import Path

import pytest

from support.files_in_use import ROWS, Row, play

# tests/long plays all rows, with one worker and with two.
WITH_ONE = {" deleted", "-wal deleted", "-wal truncated", "+-wal+-shm deleted"}
WITH_TWO = {"-shm deleted", "-wal+-shm deleted"}


@pytest.mark.parametrize("row", [row for row in ROWS if str(row) in WITH_ONE], ids=str)
def test_one_worker_loses_no_acknowledged_plant_unless_its_only_copy_is_destroyed(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=1, end=signal.SIGKILL)


@pytest.mark.parametrize("row", [row for row in ROWS if str(row) in WITH_TWO], ids=str)
def test_two_workers_lose_no_acknowledged_plant_unless_its_only_copy_is_deleted(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=2, end=signal.SIGTERM)
