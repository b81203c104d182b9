"""Database files are deleted, moved, replaced or truncated while two workers use them."""

import signal
from pathlib import Path

import pytest

from support.files_in_use import ROWS, Row, play


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_two_workers_lose_no_acknowledged_plant_unless_its_only_copy_is_destroyed(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=2, end=signal.SIGTERM)
