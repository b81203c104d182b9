"""Database files are deleted, moved, replaced or truncated while one or two workers use them."""

import signal
from pathlib import Path

import pytest

from support.files_in_use import ROWS, Row, play


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(("workers", "end"), [(1, signal.SIGKILL), (2, signal.SIGTERM)])
def test_no_acknowledged_plant_is_lost_unless_its_only_copy_is_destroyed(
    tmp_path: Path, row: Row, workers: int, end: signal.Signals
) -> None:
    play(tmp_path, row, workers, end)
