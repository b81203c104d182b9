"""The data of a SQLite store after a power loss at any moment, and on a full or broken disk.

tests/long has thousands of power cuts, and a fault at each step.
"""

import contextlib
import functools
import itertools
import random
import tempfile
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Outcome
from plantstore.errors import OperationError, StoreUnreachableError
from plantstore.plants import NewPlant
from plantstore.storage.sqlite.file import PAGE_BYTES
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.broken_disks import REFUSALS, Kind, change_and_heal, count_faults
from support.crash_states import (
    ALL_LOST,
    ALL_THERE,
    CrashStates,
    FolderSynced,
    Made,
    Resized,
    Step,
    Synced,
    SyncFailed,
    Written,
    steps_to,
)
from support.disk import Disk, Fault
from support.following import Copy
from support.ledger import Content, Ledger, live, open_with_short_log
from support.other_programs import change, make_older
from support.power_loss import Survey, some_cuts

CUTS = 15

# The version of the schema before names had keys: to add them takes several transactions.
BEFORE_KEYS = 10


@pytest.fixture
def survey(tmp_path: Path) -> Survey:
    return Survey(tmp_path)


def lived(path: Path, prepare: Callable[[SQLiteStore], object]) -> tuple[Disk, Ledger]:
    """Use a store, close it, and use it again; return its disk and its ledger."""
    chance = random.Random(0)
    with Disk(path, 0) as disk:
        ledger = Ledger(disk)
        live(ledger, disk, chance, 90, prepare)
        live(ledger, disk, chance, 30, prepare)
    return disk, ledger


def test_after_a_power_loss_all_acknowledged_changes_exist_and_none_in_part(
    path: Path, survey: Survey
) -> None:
    """The feed has exactly the changes that are stored."""
    disk, ledger = lived(path, lambda store: store.keep_changes(7))

    survey.cut(disk, ledger, some_cuts(random.Random(0), 0, len(disk.steps), CUTS))

    assert survey.problems == []
    assert survey.cuts > 2 * CUTS, "power was also lost during the recovery"
    assert ledger.acknowledged == 120
    with contextlib.closing(SQLiteStore(str(path))) as store:
        assert len(Copy().follow(store).changes) > 60


def test_after_a_power_loss_during_a_migration_the_next_start_completes_it(
    path: Path, survey: Survey
) -> None:
    url = f"sqlite:///{path}"
    plants = make_older(url, BEFORE_KEYS, 2_500)  # several transactions
    change(url, "UPDATE totals SET plants = 2500")
    history = steps_to({"": path.read_bytes()})
    with Disk(path, 0, history) as disk:
        ledger = Ledger(disk, [Content({plant.id: plant for plant in plants}, {})])
        SQLiteStore(str(path)).close()

    survey.cut(disk, ledger, some_cuts(random.Random(0), len(history), len(disk.steps), CUTS))

    assert survey.problems == []
    assert survey.cuts > 2 * CUTS, "power was also lost during the recovery"


def test_after_a_power_loss_no_id_that_was_handed_out_is_handed_out_again(
    path: Path, tmp_path: Path
) -> None:
    chance = random.Random(0)
    told = [(0, 0)]  # the number of steps after an answer, and the last id in it
    with Disk(path, 0) as disk, contextlib.closing(open_with_short_log(path, chance)) as store:
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


@pytest.mark.parametrize(
    ("synchronous", "found"), [("NORMAL", ["missing"]), ("OFF", ["missing", "malformed"])]
)
def test_a_survey_detects_lost_changes_if_commits_are_not_synced(
    path: Path, survey: Survey, synchronous: str, found: list[str]
) -> None:
    def sync_less(store: SQLiteStore) -> None:
        store._writes.pragma("synchronous", synchronous)  # noqa: SLF001

    disk, ledger = lived(path, sync_less)

    survey.cut(disk, ledger, some_cuts(random.Random(0), 0, len(disk.steps), CUTS), again=False)

    assert all(any(what in problem for problem in survey.problems) for what in found)


# The kinds of faults, and whether a fault lasts until the disk is healed.
FAULTS = [
    ("no room", True),
    ("no writes", False),
    ("no room at a sync", False),
    ("no syncs", True),
    ("no other size", True),
]

# A fault is injected at one of so many steps. A new file is written some hundred times.
EVERY: dict[Kind, int] = {Written: 60, Synced: 10, Resized: 2}


# SQLite ignores that a log cannot be cut. Before version 3.54, apsw reports that as unraisable.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
@pytest.mark.parametrize(("refusal", "lasts"), FAULTS)
def test_reads_continue_while_changes_fail_and_changes_succeed_on_the_healed_disk(
    tmp_path: Path, refusal: str, *, lasts: bool
) -> None:
    kind, error = REFUSALS[refusal]
    meets = functools.partial(change_and_heal, tmp_path)

    assert count_faults(meets, Fault(kind, 0, error, lasts), EVERY[kind]) >= 3


@pytest.mark.parametrize(
    ("kind", "error", "said"),
    [
        (Written, apsw.SQLITE_FULL, "The backup cannot be written: the disk of {} is full; free"),
        (Written, apsw.SQLITE_IOERR_WRITE, "The backup cannot be written to {}: disk I/O error"),
        (Synced, apsw.SQLITE_IOERR_FSYNC, "The backup cannot be written to {}: disk I/O error"),
    ],
)
def test_a_backup_that_cannot_be_written_reports_the_reason_and_the_folder(
    tmp_path: Path, kind: Kind, error: int, said: str
) -> None:
    plants = [NewPlant(id_, "x" * 10_000) for id_ in range(20)]
    (tmp_path / "copies").mkdir()
    with contextlib.closing(SQLiteStore(str(tmp_path / "plants.db"))) as store:
        store.apply_changes(plants)

        with Disk(tmp_path / "copies" / "copy.db", 0) as disk:
            disk.break_down(Fault(kind, 0, error, lasts=True))
            with pytest.raises(OperationError) as caught:
                store.back_up(str(disk.path), lambda _done, _total: None)

        assert caught.value.message.startswith(said.format(tmp_path / "copies"))
        assert store.apply_changes([NewPlant(99, "a")]) == [Outcome.STORED]


def test_after_a_failed_checkpoint_nothing_is_changed_so_that_the_log_keeps_all_plants(
    path: Path, tmp_path: Path
) -> None:
    """A checkpoint beside a long read copies a part, which the next sync makes durable.

    If that sync fails, no later one makes the part durable.
    """
    seconds = itertools.count()
    with (
        Disk(path, 0) as disk,
        contextlib.closing(
            SQLiteStore(str(path), monotonic=lambda: next(seconds), log_bytes_max=100 * PAGE_BYTES)
        ) as store,
    ):
        store.apply_changes([NewPlant(id_, "x" * 900) for id_ in range(60)])
        with contextlib.closing(store.scan_plants()) as scan:
            next(scan)
            store.apply_changes([NewPlant(id_, "x" * 900) for id_ in range(60, 120)])
        disk.break_down(Fault(Synced, 2, apsw.SQLITE_IOERR_FSYNC, lasts=False))
        assert store.apply_changes([NewPlant(120, "a")]) == [Outcome.STORED]
        assert disk.refused == 1
        disk.heal()

        for refused in (store.probe, lambda: store.apply_changes([NewPlant(121, "b")])):
            with pytest.raises(StoreUnreachableError, match="start again"):
                refused()
        assert len(store.find_plants([*range(200)])) == 121
    left = CrashStates(disk.steps).left(random.Random(0), ALL_LOST)
    with (
        Disk(tmp_path / "left.db", 0, steps_to(left)) as disk,
        contextlib.closing(SQLiteStore(str(disk.path))) as store,
    ):
        assert store.check().problems == []
        assert len(store.find_plants([*range(200)])) == 121
        assert store.apply_changes([NewPlant(121, "b")]) == [Outcome.STORED]


def test_data_of_a_failed_sync_stays_in_doubt_until_it_is_written_again() -> None:
    steps: list[Step] = [Made(""), Written("", 0, b"old"), Synced(""), FolderSynced()]
    steps += [Written("", 0, b"new"), SyncFailed(""), Synced("")]
    states = CrashStates(steps)

    assert states.left(random.Random(0), ALL_LOST) == {"": b"old"}
    assert states.left(random.Random(0), ALL_THERE) == {"": b"new"}
    states.follow([Written("", 0, b"new"), Synced("")])
    assert states.left(random.Random(0), ALL_LOST) == {"": b"new"}
