"""The data of a SQLite store after a power loss at any moment, whatever the disk has written."""

import contextlib
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.storage.sqlite.store import SQLiteStore
from support.crash_states import (
    ALL_LOST,
    CrashStates,
    Made,
    Removed,
    Resized,
    Written,
    steps_to,
)
from support.database_openings import created, migrated
from support.disk import Disk
from support.imported_batches import around_syncs, import_files
from support.ledger import NOTHING, Ledger, live, tune
from support.power_loss import Cut, Survey, some_cuts

CUTS = 50  # tests/long has thousands


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plants.db"


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    return Survey(tmp_path, random.Random(0))


def lived(
    path: Path,
    seed: int,
    prepare: Callable[[SQLiteStore], object] = lambda _: None,
    *,
    lies: bool = False,
) -> tuple[Disk, Ledger]:
    """Use a store, close it, and use it again; return its disk and its ledger."""
    chance = random.Random(seed)
    with Disk(path, seed, lies=lies) as disk:
        ledger = Ledger(disk)
        live(ledger, disk, chance, 150, prepare)
        live(ledger, disk, chance, 50, prepare)
    return disk, ledger


def test_after_a_power_loss_all_acknowledged_batches_of_imports_exist_and_none_in_part(
    path: Path, survey: Survey
) -> None:
    disk, chance = Disk(path, 0), random.Random(0)
    ledger = import_files(disk, chance, 2)

    survey.cut(disk, ledger, around_syncs(disk, chance, 12))

    assert survey.problems == []
    assert ledger.acknowledged > 10


@pytest.mark.parametrize("seed", range(3))
def test_after_a_power_loss_all_acknowledged_changes_exist_and_none_in_part(
    path: Path, survey: Survey, seed: int
) -> None:
    disk, ledger = lived(path, seed)

    survey.cut(disk, ledger, some_cuts(random.Random(seed), 0, len(disk.steps), CUTS))

    assert survey.problems == []
    assert survey.cuts > 2 * CUTS, "power was also lost during the recovery"
    assert ledger.acknowledged == 200


def test_after_a_power_loss_no_id_that_was_handed_out_is_handed_out_again(
    path: Path, tmp_path: Path
) -> None:
    chance = random.Random(0)
    told = [(0, 0)]  # the number of steps after an answer, and the last id in it
    with Disk(path, 0) as disk, contextlib.closing(SQLiteStore(str(path))) as store:
        tune(store, chance)
        for number in range(60):
            ids = store.hand_out_ids(chance.randrange(1, 9))
            told.append((len(disk.steps), ids[-1]))
            if number % 3:
                assert store.apply_changes([NewPlant(ids[0], "x" * chance.randrange(9000))])
    states, done, again = CrashStates(), 0, []
    for cut in sorted(some_cuts(chance, 0, len(disk.steps), CUTS)):
        states.follow(disk.steps[done : cut.after])
        done = cut.after
        left = steps_to(states.left(chance, cut.odds))
        with tempfile.TemporaryDirectory(dir=tmp_path) as folder:
            file = Path(folder) / "plants.db"
            with Disk(file, 0, left), contextlib.closing(SQLiteStore(str(file))) as store:
                last = max(id_ for steps, id_ in told if steps <= cut.after)
                again += [cut] if store.hand_out_ids(1)[0] <= last else []

    assert again == []
    assert told[-1][1] > 200


def test_a_history_has_all_critical_moments_and_can_be_reproduced(
    path: Path, tmp_path: Path
) -> None:
    disk, ledger = lived(path, 0)
    (tmp_path / "again").mkdir()
    again, ledger_again = lived(tmp_path / "again" / "plants.db", 0)

    headers = {step.data for step in disk.steps if isinstance(step, Written) and step.offset == 0}
    cut_back = [step for step in disk.steps if isinstance(step, Resized) and step.file == "-wal"]
    assert len([data for data in headers if len(data) == 32]) > 10, "the log was restarted often"
    assert cut_back
    assert Resized("-wal", 0) in disk.steps, "the log was trimmed while it was in use"
    assert Removed("-wal") in disk.steps
    assert again.steps == disk.steps
    assert ledger_again.possible == ledger.possible


def test_a_power_loss_while_a_database_is_created_loses_nothing_acknowledged(
    path: Path, survey: Survey
) -> None:
    disk, ledger = created(path)
    assert len(ledger.possible[0].tokens) == 1
    first = next(at for at, step in enumerate(disk.steps) if step == Made("-wal"))

    survey.cut(disk, ledger, some_cuts(random.Random(0), 0, first, 3 * CUTS), again=False)
    survey.cut(disk, ledger, some_cuts(random.Random(0), 0, len(disk.steps), CUTS))

    assert survey.problems == []


@pytest.mark.parametrize("journal_mode", ["delete", "wal"])
def test_a_power_loss_during_a_migration_loses_no_plants(
    path: Path, survey: Survey, journal_mode: str
) -> None:
    disk, ledger, first = migrated(path, journal_mode)

    survey.cut(disk, ledger, some_cuts(random.Random(0), first, len(disk.steps), CUTS))

    assert survey.problems == []


def test_a_survey_detects_lost_changes_if_commits_are_not_synced(
    path: Path, survey: Survey
) -> None:
    def sync_less(store: SQLiteStore) -> None:
        store._writes.pragma("synchronous", "NORMAL")  # noqa: SLF001

    disk, ledger = lived(path, 0, sync_less)

    survey.cut(disk, ledger, some_cuts(random.Random(0), 0, len(disk.steps), CUTS), again=False)

    assert any("missing" in problem for problem in survey.problems)


def test_a_survey_detects_damage_if_checkpoints_are_not_synced(path: Path, survey: Survey) -> None:
    def never_sync(store: SQLiteStore) -> None:
        store._writes.pragma("synchronous", "OFF")  # noqa: SLF001

    disk, ledger = lived(path, 0, never_sync)

    survey.cut(disk, ledger, some_cuts(random.Random(0), 0, len(disk.steps), CUTS), again=False)

    assert any("missing" in problem for problem in survey.problems)
    assert any("in database main" in problem for problem in survey.problems)


def test_a_survey_detects_lost_changes_on_a_disk_that_ignores_syncs(
    path: Path, survey: Survey
) -> None:
    disk, ledger = lived(path, 0, lies=True)

    survey.cut(disk, ledger, some_cuts(random.Random(0), 0, len(disk.steps), 3 * CUTS), again=False)

    assert any("missing" in problem for problem in survey.problems)
    assert any("in database main" in problem for problem in survey.problems)
    last = [Cut(len(disk.steps), ALL_LOST)]
    survey.problems.clear()
    survey.cut(disk, Ledger(disk, [NOTHING]), last, again=False)
    assert survey.problems == [], "all data may be lost, as if nothing had been stored"
