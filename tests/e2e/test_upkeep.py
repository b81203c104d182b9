"""`plantstore backup`, `check` and `reindex`, on real files and beside a running service."""

import contextlib
from pathlib import Path

import apsw

from plantstore.plants import NewPlant
from plantstore.storage.migrate import newest_version
from support.command import call
from support.damaged_pages import empty_root
from support.service import Service, opened, serving, stored_plants


def test_a_backup_beside_a_service_is_intact_and_only_its_owner_may_read_it(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as (_, client):
        assert client.post(NewPlant(1, "a")).status == 200

        done = call(tmp_path, "backup", "copy.db")

    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith("The copy has no errors\n")
    copied = stored_plants(f"sqlite:///{tmp_path}/copy.db")  # this also checks the integrity
    assert copied == {1: NewPlant(1, "a")}
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600, "the copy contains the tokens"


def test_a_check_and_a_backup_of_a_corrupt_database_fail_and_leave_no_copy(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        store.apply_changes([NewPlant(id_, "x" * 100, f"{id_}") for id_ in range(1000)])
    empty_root(tmp_path / "plants.db", "plant_words_data")

    checked = call(tmp_path, "check")
    copied = call(tmp_path, "backup", "copy.db")

    assert checked.returncode == copied.returncode == 1
    schema = newest_version("sqlite")
    assert checked.stdout == f"Plants: 1,000, tokens: 0, schema: {schema}\n"
    *problems, advice = checked.stderr.splitlines()
    assert any("plant_words" in problem for problem in problems)
    assert advice == "The database is damaged: restore a backup"
    failure = "plantstore: The copy has errors, so it was not kept"
    assert copied.stderr.splitlines() == [*problems, advice, failure]
    assert not (tmp_path / "copy.db").exists()


def test_a_check_names_reindex_which_repairs_the_index_beside_a_service(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        store.apply_changes([NewPlant(id_, "Abies alba") for id_ in range(2_000)])
    with contextlib.closing(apsw.Connection(str(tmp_path / "plants.db"))) as connection:
        connection.execute("UPDATE plants SET name = 'Rosa nigra'")
        connection.execute("UPDATE totals SET plants = plants + 7")
    with Service(tmp_path):
        found = call(tmp_path, "check")
        copied = call(tmp_path, "backup", "copy.db")

        repaired = call(tmp_path, "reindex")

    assert found.returncode == 1
    assert found.stderr.endswith("\nRun: plantstore reindex\n")
    assert (copied.returncode, copied.stderr) == (0, found.stderr)
    assert copied.stdout.endswith("\nThe copy has all plants\n")
    assert (repaired.returncode, repaired.stderr) == (0, "")
    assert repaired.stdout == "Rebuilt the index and counted the plants\n"
    # This also checks the index and the number.
    assert {plant.name for plant in stored_plants(database).values()} == {"Rosa nigra"}
