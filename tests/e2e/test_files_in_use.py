"""Database files are deleted, moved, replaced or truncated while they are in use."""

import signal
from pathlib import Path

import pytest

from support.files_in_use import ROWS, play

# tests/long plays all rows, with one worker and with two.
PLAYED = [
    (1, signal.SIGKILL, " deleted"),
    (1, signal.SIGKILL, "-wal deleted"),
    (1, signal.SIGKILL, "-wal truncated"),
    (2, signal.SIGTERM, "-shm deleted"),
]


@pytest.mark.parametrize(("workers", "end", "name"), PLAYED)
def test_workers_lose_no_acknowledged_plant_unless_its_only_copy_is_destroyed(
    tmp_path: Path, workers: int, end: signal.Signals, name: str
) -> None:
    [row] = [row for row in ROWS if str(row) == name]

    play(tmp_path, row, workers, end)
