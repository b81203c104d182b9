"""The check and the backup of a SQLite file, and what a flipped bit does."""

import contextlib
from pathlib import Path

import pytest

from plantstore.changes import Deletion, Outcome, Replacement
from plantstore.errors import BatchRefusedError, StoreUnavailableError
from plantstore.listings import Listing, TagListing
from plantstore.plants import NewPlant, Plant
from plantstore.storage.migrate import SchemaPolicy
from plantstore.storage.sqlite.checksums import checksum_of
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from plantstore.store import Remedy
from plantstore.tokens import TokenRecord
from support.following import everything
from support.other_programs import change, empty_root

pytestmark = pytest.mark.engines("sqlite")

PARTS = ("Abies alba", "Bed 12")
PLANTS = [NewPlant(id_, f"Abies alba {id_}") for id_ in range(1, 2_500)]


# As an import of Latin-1 by the sqlite3 shell does.
LATIN_1 = "INSERT INTO plants (id, name) VALUES (20000, CAST(x'66FF' AS TEXT))"


def test_a_check_finds_differences(path: Path, store: SQLiteStore) -> None:
    """The tests of the repair have more of them."""
    store.apply_changes(PLANTS)
    assert store.check().problems == []

    change(f"sqlite:///{path}", "DROP TABLE handed_out_ids")
    change(f"sqlite:///{path}", "UPDATE totals SET plants = 7; UPDATE plants SET name = 'rosa'")

    words = "the index of words differs from the names and tags; searches may be wrong"
    found = store.check()
    assert found.problems == [
        "handed_out_ids differs from the schema",
        "the recorded number of plants is 7",
        words,
    ]
    assert found.remedy is Remedy.REINDEX


OBJECTS = {
    "_litestream_seq": "CREATE TABLE _litestream_seq (seq INTEGER)",
    "names": "CREATE INDEX names ON plants (name)",
    "roses": "CREATE VIEW roses AS SELECT * FROM plants WHERE name LIKE 'Rosa%'",
    "watch": "CREATE TRIGGER watch AFTER DELETE ON plants BEGIN SELECT 1; END",
}


def test_objects_of_other_programs_are_a_note_of_a_check_and_of_a_backup(
    path: Path, store: SQLiteStore
) -> None:
    store.apply_changes(PLANTS)
    change(f"sqlite:///{path}", *OBJECTS.values())

    reports = [store.check(), store.back_up(str(path.with_name("copy.db")), lambda *_: None)]

    for report in reports:
        assert (report.problems, report.remedy) == ([], None)
        assert report.notes == (f"other programs have created {', '.join(sorted(OBJECTS))}",)


def flip(path: Path, text: bytes, bit: int = 0) -> None:
    """Flip a bit of a text wherever it occurs in a file."""
    content = path.read_bytes()
    flipped = bytes([text[0] ^ (1 << bit)]) + text[1:]
    assert text in content
    path.write_bytes(content.replace(text, flipped))


@pytest.mark.parametrize("bit", [0, 7])  # with the last one, it is no UTF-8
def test_a_flipped_bit_in_a_name_is_found_and_no_reindex_hides_it(path: Path, bit: int) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes([*PLANTS, NewPlant(7_000, "Rosa", "Bed 12"), NewPlant(7_001, "R", "")])
        store.apply_changes([Replacement(3, Plant("Zea mays")), NewPlant(5, "no")])
        assert store.check().problems == []
        assert store.check().notes == ()
    flip(path, b"Zea mays", bit)
    flip(path, b"Bed 12", bit)
    said = "the name or tag of 2 plants is not what was stored; ids: 3, 7000"
    damaged: list[int] = []

    with contextlib.closing(SQLiteStore(str(path))) as store:
        for _ in range(2):
            found = store.check()
            assert said in found.problems
            assert found.remedy is Remedy.RESTORE
            copied = store.back_up(str(path.with_name("copy.db")), lambda *_: None)
            assert copied.remedy is Remedy.RESTORE
            assert store.reindex(lambda *_: None) == said
        for plants in store.scan_plants(on_damaged=damaged.extend):
            assert plants
        store.apply_changes([Replacement(3, Plant("Zea")), Deletion(7_000)])
        assert store.check().remedy is not Remedy.RESTORE

    assert damaged == [3, 7000]


def test_each_bit_of_an_id_a_name_and_a_tag_changes_the_checksum() -> None:
    plant = NewPlant(5, "Abies alba", "Bed 12")
    changed = [NewPlant(5 ^ 1 << bit if bit < 63 else 5 - 2**63, *PARTS) for bit in range(64)]
    changed += [NewPlant(5, "Abies albb", "Bed 12"), NewPlant(5, "Abies alba", "Bed 13")]
    changed += [NewPlant(5, "Abies alba"), NewPlant(5, "Abies alba", "")]

    assert (
        len({checksum_of(each.id, each.name, each.tag) for each in (plant, *changed)})
        == len(changed) + 1
    )


def test_tags_behind_one_whose_plant_another_program_deleted_are_listed(
    path: Path, store: SQLiteStore
) -> None:
    store.apply_changes([NewPlant(id_, "Rosa", tag) for id_, tag in enumerate("abcd")])
    change(f"sqlite:///{path}", "DELETE FROM plants WHERE tag IN ('a', 'b')")

    page = store.list_tags(TagListing(limit=1))

    assert ([each.tag for each in page.tags], page.is_last) == (["c"], False)


def test_plants_that_another_program_stored_or_changed_are_a_note_until_a_reindex(
    path: Path, store: SQLiteStore
) -> None:
    store.apply_changes(PLANTS)
    url = f"sqlite:///{path}"
    change(url, "INSERT INTO plants (id, name) VALUES (9000, 'Acer'), (9001, 'Zea')")
    change(
        url,
        "UPDATE plants SET name = 'Rosa' WHERE id = 1; UPDATE plants SET tag = 'T' WHERE id = 2",
    )
    change(
        url, "UPDATE plants SET id = 9002 WHERE id = 3; UPDATE plants SET name = name WHERE id = 4"
    )

    found = store.check()
    damage = store.reindex(lambda *_: None)

    assert found.remedy is Remedy.REINDEX
    assert found.notes == ("5 plants have no checksum, because another program stored them",)
    assert damage is None
    assert (store.check().problems, store.check().notes) == ([], ())


def test_a_flipped_bit_in_the_declaration_of_the_index_is_said_in_one_line(path: Path) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes(PLANTS)
    flip(path, b"1 3 4'", 6)

    with pytest.raises(StoreUnavailableError, match=r"malformed prefix=.*restore a backup"):
        SQLiteStore(str(path))
    with contextlib.closing(SQLiteStore(str(path), SchemaPolicy.ACCEPT)) as store:
        found = store.check()
        assert everything(store) == PLANTS

    assert found.remedy is Remedy.RESTORE
    assert "plant_words differs from the schema" in found.problems


@pytest.mark.parametrize(
    "table", ["plants", "tokens", "plant_words_data", "plant_words_idx", "plant_words_config"]
)
def test_a_check_of_a_damaged_file_advises_to_restore_a_backup(path: Path, table: str) -> None:
    with contextlib.closing(SQLiteStore(str(path))) as store:
        store.apply_changes(PLANTS)
    empty_root(path, table)

    with contextlib.closing(SQLiteStore(str(path), SchemaPolicy.ACCEPT)) as store:
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
        assert everything(copied) == PLANTS
