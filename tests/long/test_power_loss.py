"""Power cuts at thousands of steps of a first start, and a fault of the disk at each step.

`make simulate` has power cuts and faults during all changes.
"""

from pathlib import Path
from typing import Any

import pytest

from plantstore.changes import Outcome
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.disk import REFUSALS, Disk, Fault, after_cuts, count_faults, plants_of, steps_to
from support.other_programs import change, make_older

CUTS = 2_000


@pytest.mark.parametrize("journal_mode", [None, "delete", "wal"])
def test_a_power_loss_at_any_step_of_the_first_start_loses_nothing(
    tmp_path: Path, soak: Any, journal_mode: str | None
) -> None:
    path, plants, history = tmp_path / "plants.db", list[NewPlant](), []
    if journal_mode is not None:
        url = f"sqlite:///{path}"
        plants = make_older(url, 1, 300)
        change(url, f"PRAGMA journal_mode = {journal_mode}")
        history = steps_to({"": path.read_bytes()})
    with Disk(path, 1, history) as disk:
        SQLiteStore(str(path)).close()

    for _, store in after_cuts(disk, tmp_path, CUTS, first=len(history)):
        assert plants_of(store) == plants
        assert store.apply_changes([NewPlant(1_000, "a")]) == [Outcome.STORED]
        assert store.check().problems == []

    what = "created" if journal_mode is None else f"migrated with a journal of {journal_mode}"
    soak.add(f"power loss while a store is {what}", faults=CUTS, acknowledged=None, lost=0)


@pytest.mark.parametrize("lasts", [False, True])
@pytest.mark.parametrize("refusal", REFUSALS)
def test_a_disk_that_fails_at_any_step_loses_nothing_and_the_healed_disk_is_used(
    tmp_path: Path, soak: Any, refusal: str, *, lasts: bool
) -> None:
    kind, error = REFUSALS[refusal]

    faults = count_faults(tmp_path, Fault(kind, 0, error, lasts), every=1)

    duration = "from then on" if lasts else "once"
    soak.add(f"{refusal}, {duration}", faults=faults, acknowledged=None, lost=None)
    assert faults >= 10
