"""Thousands of power cuts, on disks without faults and on disks that sometimes fail."""

import functools
import itertools
import random
from pathlib import Path
from typing import Any

import apsw
import pytest

from support.broken_disks import REFUSALS, change_and_heal, count_faults, open_and_heal
from support.crash_states import ALL_LOST, ALL_THERE, SOME_THERE, Resized, Synced, Written
from support.database_openings import created, migrated
from support.disk import Disk, Fault
from support.imported_batches import around_syncs, import_files
from support.ledger import Ledger, live, live_with_a_fault
from support.power_loss import Cut, Survey, some_cuts

SEEDS = 20
CUTS_A_SEED = 150
FAULTY_SEEDS = 1200
IMPORT_SEEDS = 3
SYNCS_A_SEED = 50
IMPORT_CUTS_MIN = 1_000

# The minimum number of power cuts, including second cuts while the store is opened again.
CUTS_MIN = 10_000

# The minimum numbers of cuts and faults of the exhaustive tests.
FIRST_START_CUTS_MIN = 3_000
FAULTS_MIN = 500

FAULTS = [
    Fault(kind, 0, error, lasts)
    for (kind, error), lasts in itertools.product(
        [
            (Written, apsw.SQLITE_FULL),
            (Written, apsw.SQLITE_IOERR_WRITE),
            (Synced, apsw.SQLITE_IOERR_FSYNC),
            (Resized, apsw.SQLITE_IOERR_TRUNCATE),
        ],
        [False, True],
    )
]


def live_and_cut(disk: Disk, chance: random.Random) -> tuple[Ledger, list[Cut]]:
    """Change plants, and return cuts at any step."""
    ledger = Ledger(disk)
    with disk:
        for _ in range(4):
            live(ledger, disk, chance, chance.randrange(10, 150))
    return ledger, some_cuts(chance, 0, len(disk.steps), CUTS_A_SEED)


def import_and_cut(disk: Disk, chance: random.Random) -> tuple[Ledger, list[Cut]]:
    """Import files, and return cuts around syncs."""
    ledger = import_files(disk, chance, 2)
    return ledger, list(around_syncs(disk, chance, SYNCS_A_SEED))


def break_and_cut(disk: Disk, chance: random.Random) -> tuple[Ledger, list[Cut]]:
    """Change plants while a step of the disk fails, and return cuts after that."""
    fault = chance.choice(FAULTS)
    fault = fault._replace(number=chance.randrange(5 if fault.kind is Resized else 40))
    ledger = Ledger(disk)
    began = live_with_a_fault(ledger, disk, chance, fault)
    return ledger, some_cuts(chance, began, len(disk.steps), 3)


@pytest.mark.parametrize(
    ("name", "act", "seeds", "cuts_min"),
    [
        ("power loss after a full or broken disk", break_and_cut, FAULTY_SEEDS, CUTS_MIN),
        ("power loss", live_and_cut, SEEDS, CUTS_MIN),
        ("power loss during imports", import_and_cut, IMPORT_SEEDS, IMPORT_CUTS_MIN),
    ],
)
def test_acknowledged_changes_and_batches_survive_power_loss(
    tmp_path: Path, soak: Any, *, name: str, act: Any, seeds: int, cuts_min: int
) -> None:
    refused = cuts = acknowledged = 0
    problems: list[str] = []
    problems_of_cuts: list[str] = []

    for seed in range(seeds):
        chance = random.Random(seed)
        disk, survey = Disk(tmp_path / f"{seed}.db", seed), Survey(tmp_path, chance)
        ledger, chosen = act(disk, chance)
        survey.cut(disk, ledger, chosen)
        problems += (f"seed {seed}: {problem}" for problem in ledger.problems)
        problems_of_cuts += (f"seed {seed}: {problem}" for problem in survey.problems)
        refused += disk.refused
        cuts += survey.cuts
        acknowledged += ledger.acknowledged

    name = f"{name}: points of interruption"
    soak.add(name, faults=cuts, acknowledged=acknowledged, lost=len(problems_of_cuts))
    name = "full or broken disk: failed writes, syncs and resizes"
    if refused:
        soak.add(name, faults=refused, acknowledged=acknowledged, lost=len(problems))
    assert problems + problems_of_cuts == []
    assert cuts >= cuts_min


def everywhere(disk: Disk, first: int = 0) -> list[Cut]:
    """Return cuts after each step, with none, some and all of the data that is in doubt."""
    return [
        Cut(after, odds)
        for after in range(first, len(disk.steps) + 1)
        for odds in (ALL_LOST, SOME_THERE, ALL_THERE)
    ]


def test_a_power_loss_at_any_step_of_the_first_start_loses_nothing(
    tmp_path: Path, soak: Any
) -> None:
    survey = Survey(tmp_path, random.Random(0))
    disk, ledger = created(tmp_path / "new.db")
    survey.cut(disk, ledger, everywhere(disk))
    for journal_mode in ("delete", "wal"):
        disk, older, first = migrated(tmp_path / f"{journal_mode}.db", journal_mode)
        survey.cut(disk, older, everywhere(disk, first))

    name = "power loss while a store is created or migrated: points of interruption"
    lost = len(survey.problems)
    soak.add(name, faults=survey.cuts, acknowledged=ledger.acknowledged, lost=lost)
    assert survey.problems == []
    assert survey.cuts >= FIRST_START_CUTS_MIN


def test_a_disk_that_fails_at_any_step_loses_nothing_and_the_healed_disk_is_used(
    tmp_path: Path, soak: Any
) -> None:
    checks = (
        functools.partial(change_and_heal),
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
