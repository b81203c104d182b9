"""The check, the backup and the repair of a SQLite file, and a file that is opened read-only."""

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.errors import BatchRefusedError, StoreUnavailableError
from plantstore.listings import Listing
from plantstore.plants import NewPlant, Plant
from plantstore.storage.migrate import newest_version
from plantstore.storage.sqlite.read_only import ReadOnlySQLite
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.store import CheckReport, Remedy
from plantstore.tokens import TokenRecord
from support.damaged_pages import empty_root
from support.other_programs import change

pytestmark = pytest.mark.engines("sqlite")

PLANTS = [NewPlant(id_, f"Abies alba {id_}") for id_ in range(1, 2_500)]


# As an import of Latin-1 by the sqlite3 shell does.
LATIN_1 = "INSERT INTO plants (id, name) VALUES (20000, CAST(x'66FF' AS TEXT))"


def test_a_check_finds_differences(path: Path, store: SQLiteStore) -> None:
    """The tests of the repair have more of them."""
    store.apply_changes(PLANTS)
    assert store.check().problems == []

    change(f"sqlite:///{path}", "DROP TABLE handed_out_ids; CREATE TABLE songs (title TEXT)")
    change(f"sqlite:///{path}", "UPDATE totals SET plants = 7; UPDATE plants SET name = 'rosa'")

    words = "the index of words differs from the names and tags; searches may be wrong"
    found = store.check()
    assert found.problems == [
        "handed_out_ids differs from the schema",
        "songs differs from the schema",
        "the recorded number of plants is 7",
        words,
    ]
    assert found.remedy is Remedy.REINDEX


@pytest.mark.parametrize(
    "table", ["plants", "tokens", "plant_words_data", "plant_words_idx", "plant_words_config"]
)
def test_a_check_of_a_damaged_file_advises_to_restore_a_backup(path: Path, table: str) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes(PLANTS)
    empty_root(path, table)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        found = store.check()

    assert found.remedy is Remedy.RESTORE
    assert found.problems
    assert all(problem.isprintable() for problem in found.problems)


@pytest.mark.parametrize("table", ["plants", "tokens", "totals", "plant_words"])
def test_a_check_of_a_file_without_a_table_advises_to_restore_a_backup(
    path: Path, store: SQLiteStore, table: str
) -> None:
    change(f"sqlite:///{path}", f"DROP TABLE {table}")

    assert store.check().remedy is Remedy.RESTORE


def test_a_check_finds_invalid_utf_8_which_does_not_hide_other_plants(
    path: Path, store: SQLiteStore
) -> None:
    store.apply_changes([NewPlant(1, "a"), NewPlant(30_000, "c")])
    change(f"sqlite:///{path}", LATIN_1)

    assert any("plant 20000" in problem for problem in store.check().problems)
    shown = [NewPlant(1, "a"), NewPlant(20_000, "f\ufffd"), NewPlant(30_000, "c")]
    assert store.list_plants(Listing(limit=9)).items == shown
    assert store.find_plants([20_000]) == {20_000: shown[1]}
    assert store.apply_changes([Replacement(20_000, Plant("b"))]) == [Outcome.REPLACED]
    # The other program has not counted its plant.
    assert store.check().problems == ["the recorded number of plants is 2"]


def test_a_plant_that_another_program_stored_does_not_fail_other_changes(
    path: Path, store: SQLiteStore
) -> None:
    change(f"sqlite:///{path}", "INSERT INTO plants (id, name) VALUES (1, 'rosa alba')")

    # FTS5 refuses to remove words of which it never got any.
    with pytest.raises(BatchRefusedError):
        store.apply_changes([Deletion(1), NewPlant(2, "acer")])
    assert store.apply_changes([NewPlant(2, "acer")]) == [Outcome.STORED]
    assert store.find_plants([1, 2]).keys() == {1, 2}


BAD_UTF8 = "UPDATE tokens SET scopes = CAST(x'ff' AS TEXT)"
NO_SCOPES = """
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'scopes TEXT NOT NULL', 'scopes TEXT         ');
"""


@pytest.mark.parametrize("damage", [[BAD_UTF8], [NO_SCOPES, "UPDATE tokens SET scopes = NULL"]])
def test_a_damaged_token_makes_the_tokens_unreadable_and_is_found_by_a_check(
    path: Path, damage: list[str]
) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.add_token(TokenRecord("a", b"digest", frozenset({"plants:read"}), 1))
    change(f"sqlite:///{path}", *damage)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        with pytest.raises(StoreUnavailableError):
            store.find_token(b"digest")
        with pytest.raises(StoreUnavailableError):
            store.list_tokens()
        assert store.check().problems


def test_a_backup_is_a_consistent_snapshot_during_writes(path: Path, store: SQLiteStore) -> None:
    copy = path.with_name("copy.db")
    steps: list[int] = []
    with contextlib.closing(SQLiteStore(str(path))) as another:
        store.apply_changes(PLANTS)

        def write(done: int, _total: int) -> None:
            assert not steps or done > steps[-1], "the backup began again"
            steps.append(done)
            another.apply_changes([NewPlant(10_000 + done, "y" * 1000), Deletion(done)])

        store.back_up(str(copy), write, step_pages=3)

    assert len(steps) > 20
    with contextlib.closing(SQLiteStore(str(copy))) as copied:
        assert [plant for plants in copied.scan_plants() for plant in plants] == PLANTS


@pytest.fixture
def database(path: Path) -> Iterator[ReadOnlySQLite]:
    """Yield a database that is opened read-only, while other processes may write to it."""
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes(PLANTS)
    with contextlib.closing(ReadOnlySQLite(str(path))) as database:
        yield database


def test_no_file_is_created_beside_the_database(path: Path, database: ReadOnlySQLite) -> None:
    assert [plant for plants in database.scan_plants() for plant in plants] == PLANTS
    assert database.count_plants() == len(PLANTS)
    assert database.check() == CheckReport(newest_version("sqlite"), len(PLANTS), 0, [])
    assert [file.name for file in path.parent.iterdir()] == ["plants.db"]


def test_a_scan_fails_if_another_process_changes_the_file_during_it(
    path: Path, database: ReadOnlySQLite
) -> None:
    scan = database.scan_plants()
    next(scan)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(9999, "new")])

    with pytest.raises(StoreUnavailableError, match="was changed while it was read; run the"):
        list(scan)


def test_a_scan_during_writes_returns_one_snapshot(path: Path, database: ReadOnlySQLite) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(30_000, "in the log")])
        scan = database.scan_plants()
        seen = list(next(scan))

        store.apply_changes([NewPlant(40_000, "later")])
        seen += [plant for plants in scan for plant in plants]

    assert seen == [*PLANTS, NewPlant(30_000, "in the log")]


def test_an_unreadable_database_is_refused_with_the_reason(path: Path) -> None:
    SQLiteStore(str(path)).close()
    path.chmod(0o200)
    is_root = os.geteuid() == 0
    if is_root:  # file modes do not restrict root
        for folder in path.parents[:3]:
            folder.chmod(0o755)
        os.seteuid(65534)
    try:
        with pytest.raises(StoreUnavailableError, match="cannot be opened: Permission denied"):
            ReadOnlySQLite(str(path))
    finally:
        if is_root:
            os.seteuid(0)
