"""`plantstore backup`, `check` and `reindex`, on real files and beside a running service."""

import contextlib
from pathlib import Path

import apsw

from plantstore.plants import NewPlant
from support.command import call
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


def test_damaged_plants_are_named_and_their_copy_never_replaces_a_good_one(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        store.apply_changes([NewPlant(1, "Abies"), NewPlant(2, "Rosa"), NewPlant(3, "Zea")])
    assert call(tmp_path, "backup", "copy.db").returncode == 0
    good = (tmp_path / "copy.db").read_bytes()
    file = tmp_path / "plants.db"
    file.write_bytes(file.read_bytes().replace(b"Rosa", b"Rosq"))
    damage = "the name or tag of 1 plants is not what was stored; ids: 2"
    advice = "The database is damaged: restore a backup"

    checked = call(tmp_path, "check")
    copied = call(tmp_path, "backup", "--force", "copy.db")
    repaired = call(tmp_path, "reindex")
    exported = call(tmp_path, "export", "-")
    with serving(tmp_path) as (service, client):
        assert client.send("GET", "/plants.ndjson").status == 200

    assert (checked.returncode, copied.returncode, repaired.returncode) == (1, 1, 1)
    for done in (checked, copied):
        assert damage in done.stderr.splitlines()
        assert advice in done.stderr.splitlines()
        assert "reindex" not in done.stderr
    assert copied.stderr.splitlines()[-1] == "plantstore: The copy has errors, so it was not kept"
    assert (tmp_path / "copy.db").read_bytes() == good
    assert repaired.stderr.splitlines()[-1] == (
        f"plantstore: The database is damaged: {damage}. Restore a backup"
    )
    assert exported.returncode == 0
    assert exported.stderr == (
        "Exported 3 plants\n1 of them are damaged; `plantstore check` names them\n"
    )
    assert service.has_logged("damaged plants exported")


def test_each_start_that_makes_a_new_store_logs_a_warning_with_its_path(tmp_path: Path) -> None:
    logs = []
    for is_empty in (False, True):
        folder = tmp_path / str(is_empty)
        folder.mkdir()
        if is_empty:
            (folder / "plants.db").touch()
        for _ in range(2):
            with Service(folder) as service:
                pass
            logs.append([line for line in service.log if "database created" in line])

    assert [len(lines) for lines in logs] == [1, 0, 1, 0]
    for lines in logs[::2]:
        assert '"level":"warning"' in lines[0].replace(" ", "")
        assert "/plants.db" in lines[0]


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
