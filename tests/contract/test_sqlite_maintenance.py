"""The schema of a SQLite file, its check and its backup."""

import contextlib
from pathlib import Path

import apsw
import pytest

from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.errors import BatchRefusedError, SchemaOutdatedError, StoreUnavailableError
from plantstore.listings import Count, Listing
from plantstore.plants import NewPlant, Plant
from plantstore.storage.migrate import SchemaPolicy, migrations
from plantstore.storage.sqlite.file import APPLICATION_ID
from plantstore.storage.sqlite.store import SQLiteStore
from plantstore.store import CheckReport
from plantstore.tokens import TokenRecord
from support.damaged_pages import empty_root

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "plants.db"


def make_file_of_first_schema(path: Path) -> None:
    first, *_ = migrations("sqlite")
    connection = apsw.Connection(str(path))
    connection.execute(first)
    connection.execute("INSERT INTO plants VALUES (1, 'a', 't'), (2, 'b', NULL)")
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", 1)
    connection.close()


def test_a_database_of_the_first_schema_is_migrated_and_keeps_its_plants(
    path: Path,
) -> None:
    make_file_of_first_schema(path)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        assert store.list_plants(Listing(limit=1)).plants == [NewPlant(1, "a", "t")]
        assert store.list_plants(Listing(words=("a",))).plants == [NewPlant(1, "a", "t")]
        assert store.list_plants(Listing(has_total=True)).total == Count(2)
        assert store.check() == CheckReport(len(migrations("sqlite")), 2, 0, [])


def test_a_check_finds_unknown_tables_and_missing_indexes(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([PLANT])
        connection = apsw.Connection(str(path))
        connection.execute("DROP TABLE handed_out_ids; CREATE TABLE songs (title TEXT)")
        connection.close()

        assert store.check().problems == [
            "handed_out_ids differs from the schema",
            "songs differs from the schema",
        ]


def test_a_check_finds_damage(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(id_, "x" * 100, f"{id_}") for id_ in range(1000)])
    empty_root(path, "plant_words_data")

    with contextlib.closing(SQLiteStore(str(path))) as store:
        found = store.check()

    assert found.plants == 1000
    assert any("plant_words" in problem for problem in found.problems)


def test_a_check_finds_invalid_utf_8_which_does_not_hide_other_plants(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(1, "a"), NewPlant(3, "c")])
        other = apsw.Connection(str(path))  # as an import of Latin-1 by the sqlite3 shell does
        other.execute("INSERT INTO plants VALUES (2, CAST(x'66FF' AS TEXT), NULL)")
        other.close()

        assert any("plant 2" in problem for problem in store.check().problems)
        shown = [NewPlant(1, "a"), NewPlant(2, "f\ufffd"), NewPlant(3, "c")]
        assert store.list_plants(Listing(limit=9)).plants == shown
        assert store.find_plants([2]) == {2: shown[1]}
        assert store.apply_changes([Replacement(2, Plant("b"))]) == [Outcome.REPLACED]
        # The other program has not counted its plant.
        assert store.check().problems == [
            "the recorded number of plants is 2; run `plantstore reindex`"
        ]


def test_an_older_schema_is_migrated_only_by_migrate(path: Path) -> None:
    make_file_of_first_schema(path)

    for policy in (SchemaPolicy.CREATE, SchemaPolicy.REQUIRE):
        with pytest.raises(SchemaOutdatedError, match=r"has schema 1, but 5 is needed\. Run: "):
            SQLiteStore(str(path), policy)
    with contextlib.closing(SQLiteStore(str(path), SchemaPolicy.ACCEPT)) as store:
        assert store.check() == CheckReport(1, 2, 0, [])
        assert store.list_plants(Listing(limit=1)).plants == [NewPlant(1, "a", "t")]
        assert [len(plants) for plants in store.scan_plants()] == [2]
        copy = path.with_name("copy.db")
        assert store.back_up(str(copy), lambda _done, _total: None).schema == 1

    connection = apsw.Connection(str(path))
    assert connection.pragma("user_version") == 1
    connection.close()


def test_a_backup_is_a_consistent_snapshot_during_writes(path: Path) -> None:
    copy = path.with_name("copy.db")
    steps: list[int] = []
    with (
        contextlib.closing(SQLiteStore(str(path))) as store,
        contextlib.closing(SQLiteStore(str(path))) as another,
    ):
        before = [NewPlant(id_, "x" * 1000) for id_ in range(100)]
        store.apply_changes(before)

        def write(done: int, _total: int) -> None:
            assert not steps or done > steps[-1], "the backup began again"
            steps.append(done)
            another.apply_changes([NewPlant(1000 + done, "y" * 1000), Deletion(done)])

        store.back_up(str(copy), write, step_pages=1)

    assert len(steps) > 20
    with contextlib.closing(SQLiteStore(str(copy))) as copied:
        assert [plant for plants in copied.scan_plants() for plant in plants] == before


BAD_UTF8 = "UPDATE tokens SET scopes = CAST(x'ff' AS TEXT)"
NO_SCOPES = """
PRAGMA writable_schema = ON;
UPDATE sqlite_schema SET sql = replace(sql, 'scopes TEXT NOT NULL', 'scopes TEXT         ');
"""


@pytest.mark.parametrize("damage", [[BAD_UTF8], [NO_SCOPES, "UPDATE tokens SET scopes = NULL"]])
def test_a_damaged_token_makes_the_tokens_unreadable_and_is_found_by_a_check(
    path: Path, damage: list[str]
) -> None:
    store = SQLiteStore(str(path))
    store.add_token(TokenRecord("a", b"digest", frozenset({"plants:read"}), 1))
    store.close()
    for statements in damage:
        with contextlib.closing(apsw.Connection(str(path))) as connection:
            connection.execute(statements)

    with contextlib.closing(SQLiteStore(str(path))) as store:
        with pytest.raises(StoreUnavailableError):
            store.find_token(b"digest")
        with pytest.raises(StoreUnavailableError):
            store.list_tokens()
        assert store.check().problems


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        ("UPDATE plants SET name = 'rosa'", "the index of words differs from the names"),
        (
            "INSERT INTO plant_words (plant_words, rowid, words) VALUES ('delete', 1, 'abies')",
            "the index of words differs from the names",
        ),
        ("INSERT INTO plant_words (rowid, words) VALUES (1000, 'abies')", "the index of words"),
        ("DELETE FROM plant_words_idx", "the index of words differs from the names"),
        ("UPDATE totals SET plants = 7", "the recorded number of plants is 7"),
    ],
)
def test_a_check_compares_the_index_of_words_and_the_number_of_plants(
    path: Path, damage: str, problem: str
) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([NewPlant(id_, f"Abies alba {id_}") for id_ in range(1, 1_000)])
        assert store.check().problems == []
        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute(damage)

        problems = store.check().problems

        assert len(problems) == 1
        assert problem in problems[0]


def test_a_plant_that_another_program_stored_does_not_fail_other_changes(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        with contextlib.closing(apsw.Connection(str(path))) as other:
            other.execute("INSERT INTO plants VALUES (1, 'rosa alba', NULL)")

        # FTS5 refuses to remove words of which it never got any.
        with pytest.raises(BatchRefusedError):
            store.apply_changes([Deletion(1), NewPlant(2, "acer")])
        assert store.apply_changes([NewPlant(2, "acer")]) == [Outcome.STORED]
        assert store.find_plants([1, 2]).keys() == {1, 2}
