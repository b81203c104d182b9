"""Hundreds of kills at random moments, on a database that another process also writes to."""

from pathlib import Path
from typing import Any

import pytest

from support.crashes import Crashes


@pytest.mark.parametrize(("workers", "rounds"), [(1, 100), (3, 20)])
def test_every_acknowledged_plant_survives_every_kill(
    tmp_path: Path, soak: Any, workers: int, rounds: int
) -> None:
    crashes = Crashes(tmp_path, workers)

    for number in range(rounds):
        crashes.play_round(with_import=number % 3 == 0)

    soak.add(
        f"kill -9 of imports, and under load of {workers} worker{'s' if workers > 1 else ''}",
        faults=crashes.kills,
        acknowledged=len(crashes.acknowledged),
        lost=len(crashes.lost),
    )
    assert crashes.lost == set()
