"""`plantstore undo`, and undos of a service that is killed."""

import re
from pathlib import Path

import pytest

from plantstore.changes import Upsert
from plantstore.plants import NewPlant
from support.command import call
from support.other_programs import engine_of
from support.service import Service, opened, stored_plants
from support.undo_crashes import UndoCrashes

ROWS = "id,name,tag\n1,b,t\n2,c,\n3,d,u\n"


@pytest.fixture
def before(tmp_path: Path, database: str) -> dict[int, NewPlant]:
    """Return the plants in a database whose feed is on; plants.csv has others."""
    with opened(database) as store:
        store.keep_changes(7)
        store.apply_changes([NewPlant(1, "a")])
    (tmp_path / "plants.csv").write_text(ROWS, encoding="utf-8")
    return {1: NewPlant(1, "a")}


def set_in(said: str) -> str:
    """Return the name of the set in the output of an import."""
    [name] = re.findall(r"^To undo: plantstore undo (\S+)", said, re.MULTILINE)
    return str(name)


@pytest.mark.engines("sqlite", "postgres")
def test_an_import_prints_how_to_undo_it_and_its_undo_gives_all_plants_back(
    tmp_path: Path, database: str, before: dict[int, NewPlant]
) -> None:
    imported = call(tmp_path, "import", "plants.csv", "--on-conflict", "replace")
    after = stored_plants(database)
    name = set_in(imported.stderr)

    tried = call(tmp_path, "undo", name, "--dry-run")
    unchanged = stored_plants(database)
    with opened(database) as store:
        store.apply_changes([Upsert(NewPlant(3, "other"))])
    undone, again = (call(tmp_path, "undo", name) for _ in range(2))

    said = "1 restored, {} deleted, 0 stored again, {} kept, because they were changed since\n"
    assert after == {1: NewPlant(1, "b", "t"), 2: NewPlant(2, "c"), 3: NewPlant(3, "d", "u")}
    assert unchanged == after
    assert (tried.returncode, tried.stdout) == (0, "Dry run: " + said.format(2, 0))
    assert (undone.returncode, undone.stdout, undone.stderr) == (0, said.format(1, 1), "")
    assert again.stdout == undone.stdout
    assert stored_plants(database) == before | {3: NewPlant(3, "other")}


def test_an_import_that_changes_nothing_or_is_not_recorded_prints_no_undo(
    tmp_path: Path, database: str, before: dict[int, NewPlant]
) -> None:
    call(tmp_path, "import", "plants.csv", "--on-conflict", "skip")
    again = call(tmp_path, "import", "plants.csv", "--on-conflict", "skip")
    with opened(database) as store:
        store.keep_changes(0)
    off = call(tmp_path, "import", "plants.csv", "--on-conflict", "replace")

    assert before.keys() < stored_plants(database).keys()
    assert (again.stderr, off.stderr) == ("", "")
    assert "1 replaced" in off.stdout


def test_a_set_that_cannot_be_undone_is_a_one_line_error(tmp_path: Path, database: str) -> None:
    with opened(database) as store:
        store.keep_changes(7)
    unknown = call(tmp_path, "undo", "no-such-set-0123")
    with opened(database) as store:
        store.keep_changes(0)
    off = call(tmp_path, "undo", "no-such-set-0123")

    assert (unknown.returncode, unknown.stdout) == (1, "")
    assert unknown.stderr == "plantstore: No change set has this name\n"
    assert (off.returncode, off.stdout) == (1, "")
    assert "--changes-keep 0" in off.stderr


def test_an_undo_beside_a_service_is_seen_by_it(
    tmp_path: Path, database: str, before: dict[int, NewPlant]
) -> None:
    with Service(tmp_path) as service, service.client(service.token()) as client:
        name = set_in(call(tmp_path, "import", "plants.csv").stderr)

        tried = client.send("POST", f"/undo?set={name}&dry-run")
        undone = call(tmp_path, "undo", name)
        again = client.send("POST", f"/undo?set={name}")

    assert undone.stdout.startswith("0 restored, 2 deleted,")
    assert tried.json["deleted"] == again.json["deleted"] == 2
    assert stored_plants(database) == before


# tests/long kills more often.
@pytest.mark.engines("sqlite", "postgres")
def test_an_undo_that_is_killed_is_completed_by_sending_it_again(
    tmp_path: Path, database: str
) -> None:
    crashes = UndoCrashes(tmp_path, workers={"sqlite": 1, "postgres": 2}[engine_of(database)])

    for _ in range(2):
        crashes.play_round()

    assert crashes.wrong == []
