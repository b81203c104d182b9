"""Thousands of power cuts, on disks without faults and on disks that sometimes fail."""

import functools
import itertools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.broken_disks import REFUSALS, change_and_heal, count_faults, open_and_heal
from support.crash_states import steps_to
from support.disk import Disk, Fault
from support.ledger import Content, Ledger, live
from support.other_programs import change, make_older
from support.power_loss import Survey, everywhere, some_cuts

if TYPE_CHECKING:
    from collections.abc import Callable

SEEDS = 20
CUTS_A_SEED = 150

# The minimum number of power cuts, including second cuts while the store is opened again.
CUTS_MIN = 10_000

# The minimum numbers of cuts and faults of the exhaustive tests.
FIRST_START_CUTS_MIN = 3_000
FAULTS_MIN = 500


def test_acknowledged_changes_survive_power_loss(tmp_path: Path, soak: Any) -> None:
    survey = Survey(tmp_path)

    for seed in range(SEEDS):
        chance = random.Random(seed)
        with Disk(tmp_path / f"{seed}.db", seed) as disk:
            ledger = Ledger(disk)
            for _ in range(4):
                live(ledger, disk, chance, chance.randrange(10, 150))
        survey.acknowledged += ledger.acknowledged
        survey.cut(disk, ledger, some_cuts(chance, 0, len(disk.steps), CUTS_A_SEED))

    report(soak, "power loss", survey)
    assert survey.problems == []
    assert survey.cuts >= CUTS_MIN


def report(soak: Any, name: str, survey: Survey) -> None:
    soak.add(
        f"{name}: points of interruption",
        faults=survey.cuts,
        acknowledged=survey.acknowledged,
        lost=len(survey.problems),
    )


def created(path: Path) -> tuple[Disk, Ledger]:
    """Create a store, and make a few changes; return its disk and its ledger."""
    with Disk(path, 1) as disk:
        ledger = Ledger(disk)
        live(ledger, disk, random.Random(22), 6)
    return disk, ledger


def migrated(path: Path, journal_mode: str) -> tuple[Disk, Ledger, int]:
    """Migrate a store of the first version.

    Returns:
        Its disk, its ledger, and the number of steps before the migration.

    """
    url = f"sqlite:///{path}"
    plants = {plant.id: plant for plant in make_older(url, 1, 300)}
    change(url, f"PRAGMA journal_mode = {journal_mode}")
    history = steps_to({"": path.read_bytes()})
    with Disk(path, 1, history) as disk:
        ledger = Ledger(disk, [Content(plants, {})])
        SQLiteStore(str(path)).close()
    return disk, ledger, len(history)


def test_a_power_loss_at_any_step_of_the_first_start_loses_nothing(
    tmp_path: Path, soak: Any
) -> None:
    survey = Survey(tmp_path)
    disk, ledger = created(tmp_path / "new.db")
    survey.acknowledged = ledger.acknowledged
    survey.cut(disk, ledger, everywhere(disk))
    for journal_mode in ("delete", "wal"):
        disk, older, first = migrated(tmp_path / f"{journal_mode}.db", journal_mode)
        survey.cut(disk, older, everywhere(disk, first))

    report(soak, "power loss while a store is created or migrated", survey)
    assert survey.problems == []
    assert survey.cuts >= FIRST_START_CUTS_MIN


def test_a_disk_that_fails_at_any_step_loses_nothing_and_the_healed_disk_is_used(
    tmp_path: Path, soak: Any
) -> None:
    checks: tuple[Callable[..., bool], ...] = (
        change_and_heal,
        functools.partial(open_and_heal, is_new=True),
        functools.partial(open_and_heal, is_new=False),
    )
    faults = 0
    for number, (check, (kind, error), lasts) in enumerate(
        itertools.product(checks, REFUSALS.values(), [False, True])
    ):
        folder = tmp_path / str(number)
        folder.mkdir()
        fault = Fault(kind, 0, error, lasts)
        faults += count_faults(functools.partial(check, folder), fault, every=1)

    name = "a full or broken disk at each step: failed writes, syncs and resizes"
    soak.add(name, faults=faults, acknowledged=None, lost=None)
    assert faults >= FAULTS_MIN
