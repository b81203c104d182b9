"""Thousands of power cuts, on disks without faults and on disks that sometimes fail."""

import functools
import itertools
import random
from pathlib import Path
from typing import TYPE_CHECKING, Any

import apsw

from support.broken_disks import REFUSALS, change_and_heal, count_faults, open_and_heal
from support.crash_states import Resized, Synced, Written
from support.database_openings import created, migrated
from support.disk import Disk, Fault
from support.imported_batches import around_syncs, import_files
from support.ledger import Ledger, live, live_with_a_fault
from support.power_loss import Cut, Survey, everywhere, some_cuts

if TYPE_CHECKING:
    from collections.abc import Callable

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


def test_acknowledged_changes_survive_power_loss(tmp_path: Path, soak: Any) -> None:
    survey = Survey(tmp_path)

    def use(disk: Disk, chance: random.Random) -> tuple[Ledger, list[Cut]]:
        ledger = Ledger(disk)
        with disk:
            for _ in range(4):
                live(ledger, disk, chance, chance.randrange(10, 150))
        return ledger, some_cuts(chance, 0, len(disk.steps), CUTS_A_SEED)

    for seed in range(SEEDS):
        survey.use_and_cut(seed, use)

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


def test_acknowledged_batches_of_imports_survive_power_loss_around_syncs(
    tmp_path: Path, soak: Any
) -> None:
    survey = Survey(tmp_path)

    def use(disk: Disk, chance: random.Random) -> tuple[Ledger, list[Cut]]:
        ledger = import_files(disk, chance, 2)
        return ledger, around_syncs(disk, chance, SYNCS_A_SEED)

    for seed in range(IMPORT_SEEDS):
        survey.use_and_cut(seed, use)

    report(soak, "power loss during imports", survey)
    assert survey.problems == []
    assert survey.cuts >= IMPORT_CUTS_MIN


def test_acknowledged_changes_survive_power_loss_after_a_full_or_broken_disk(
    tmp_path: Path, soak: Any
) -> None:
    survey = Survey(tmp_path)
    refused = 0
    problems: list[str] = []

    def use(disk: Disk, chance: random.Random) -> tuple[Ledger, list[Cut]]:
        nonlocal refused
        fault = chance.choice(FAULTS)
        fault = fault._replace(number=chance.randrange(5 if fault.kind is Resized else 40))
        ledger = Ledger(disk)
        began = live_with_a_fault(ledger, disk, chance, fault)
        refused += disk.refused
        problems.extend(f"{disk.path}, {fault}: {problem}" for problem in ledger.problems)
        return ledger, some_cuts(chance, began, len(disk.steps), 3)

    for seed in range(FAULTY_SEEDS):
        survey.use_and_cut(seed, use)

    report(soak, "power loss after a full or broken disk", survey)
    name = "full or broken disk: failed writes, syncs and resizes"
    soak.add(name, faults=refused, acknowledged=survey.acknowledged, lost=len(problems))
    assert problems + survey.problems == []
    assert survey.cuts >= CUTS_MIN
