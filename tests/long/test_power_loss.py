"""Thousands of power cuts, on disks without faults and on disks that sometimes fail."""

import itertools
import random
from pathlib import Path
from typing import Any

import apsw

from support.disk import Disk, Fault
from support.imported_batches import around_syncs, import_files
from support.ledger import Ledger, live, live_with_a_fault
from support.platter import Resized, Synced, Written
from support.power_loss import Survey, some_cuts

SEEDS = 20
CUTS_A_SEED = 150
FAULTY_SEEDS = 1200
IMPORT_SEEDS = 3
SYNCS_A_SEED = 50
IMPORT_CUTS_MIN = 1_000

# The minimum number of power cuts, including second cuts while the store is opened again.
CUTS_MIN = 10_000

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


def test_acknowledged_changes_survive_power_loss(tmp_path: Path, soak: Any) -> None:
    cuts = acknowledged = 0
    problems: list[str] = []

    for seed in range(SEEDS):
        chance = random.Random(seed)
        disk, survey = Disk(tmp_path / f"{seed}.db", seed), Survey(tmp_path, chance)
        ledger = Ledger(disk)
        with disk:
            for _ in range(4):
                live(ledger, disk, chance, chance.randrange(10, 150))
        survey.cut(disk, ledger, some_cuts(chance, 0, len(disk.steps), CUTS_A_SEED))
        problems += (f"seed {seed}: {problem}" for problem in survey.problems)
        cuts += survey.cuts
        acknowledged += ledger.acknowledged

    name = "power loss: points of interruption"
    soak.add(name, faults=cuts, acknowledged=acknowledged, lost=len(problems))
    assert problems == []
    assert cuts >= CUTS_MIN


def test_acknowledged_batches_of_imports_survive_power_loss_around_syncs(
    tmp_path: Path, soak: Any
) -> None:
    cuts = acknowledged = 0
    problems: list[str] = []

    for seed in range(IMPORT_SEEDS):
        chance = random.Random(seed)
        disk, survey = Disk(tmp_path / f"{seed}.db", seed), Survey(tmp_path, chance)
        ledger = import_files(disk, chance, 2)
        survey.cut(disk, ledger, around_syncs(disk, chance, SYNCS_A_SEED))
        problems += (f"seed {seed}: {problem}" for problem in survey.problems)
        cuts += survey.cuts
        acknowledged += ledger.acknowledged

    name = "power loss during imports: points of interruption"
    soak.add(name, faults=cuts, acknowledged=acknowledged, lost=len(problems))
    assert problems == []
    assert cuts >= IMPORT_CUTS_MIN


def test_acknowledged_changes_survive_power_loss_after_a_full_or_broken_disk(
    tmp_path: Path, soak: Any
) -> None:
    refused = cuts = acknowledged = 0
    problems: list[str] = []
    problems_of_cuts: list[str] = []

    for seed in range(FAULTY_SEEDS):
        chance = random.Random(seed)
        fault = chance.choice(FAULTS)
        fault = fault._replace(number=chance.randrange(5 if fault.kind is Resized else 40))
        disk = Disk(tmp_path / f"{seed}.db", seed)
        survey = Survey(tmp_path, chance)
        ledger = Ledger(disk)
        began = live_with_a_fault(ledger, disk, chance, fault)
        survey.cut(disk, ledger, some_cuts(chance, began, len(disk.steps), 3))
        where = f"seed {seed}, {fault}"
        problems += (f"{where}: {problem}" for problem in ledger.problems)
        problems_of_cuts += (f"{where}: {problem}" for problem in survey.problems)
        refused += disk.refused
        cuts += survey.cuts
        acknowledged += ledger.acknowledged

    name = "power loss after a full or broken disk: points of interruption"
    soak.add(name, faults=cuts, acknowledged=acknowledged, lost=len(problems_of_cuts))
    name = "full or broken disk: failed writes, syncs and resizes"
    soak.add(name, faults=refused, acknowledged=acknowledged, lost=len(problems))
    assert problems + problems_of_cuts == []
    assert cuts >= CUTS_MIN
