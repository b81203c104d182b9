"""Whatever operators do to the files of a database that several workers use."""

import signal
from pathlib import Path

import pytest

from support.files_in_use import ROWS, Row, play


@pytest.mark.parametrize("row", ROWS, ids=str)
def test_what_workers_acknowledged_is_there_whatever_befalls_any_file(
    tmp_path: Path, row: Row
) -> None:
    play(tmp_path, row, workers=2, end=signal.SIGTERM)
