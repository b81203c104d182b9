"""Commands that create, migrate, check, back up or repair a database, also beside a service."""

import contextlib
import json
import re
import shlex
from pathlib import Path

import apsw
import pytest

from plantstore.plants import NewPlant
from plantstore.storage.migrate import newest_version
from support.command import call, run
from support.other_programs import OLDEST, engine_of, make_older
from support.service import Service, opened, serving, stored_plants


@pytest.fixture
def older(database: str) -> str:
    """Make a store of an older version with one plant."""
    make_older(database, 1)
    return database


@pytest.fixture(autouse=True)
def file(tmp_path: Path) -> Path:
    """Make a file to import."""
    file = tmp_path / "new.csv"
    file.write_text("id,name\n2,b\n", encoding="utf-8")
    return file


NONE_HERE = (
    "No database at plants.db; `plantstore migrate` creates one, and --database names another"
)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("token list", NONE_HERE),
        ("token revoke t", NONE_HERE),
        ("check", NONE_HERE),
        ("stats", NONE_HERE),
        ("export", NONE_HERE),
        ("backup copy.db", NONE_HERE),
        ("serve --no-migrate --port 0", NONE_HERE),
        ("import nowhere.csv", "nowhere.csv: No such file or directory"),
        ("import . --format csv", ".: Is a directory"),
        ("import /dev/null --format csv", "The file is empty"),
    ],
)
def test_a_command_that_needs_a_database_or_a_file_creates_none(
    tmp_path: Path, file: Path, command: str, said: str
) -> None:
    done = call(tmp_path, *command.split())

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"plantstore: {said}")
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.engines("sqlite", "postgres")
def test_commands_that_read_leave_an_older_schema_as_it_is_and_others_say_how_to_migrate_it(
    tmp_path: Path, older: str
) -> None:
    read = [call(tmp_path, each) for each in ("stats", "export", "check")]
    read.append(call(tmp_path, "token", "list"))
    refused = [
        call(tmp_path, "token", "create", "t"),
        call(tmp_path, "token", "revoke", "t"),
        call(tmp_path, "import", "new.csv"),
        run(tmp_path, "serve", "--no-migrate", "--port", "0"),
    ]

    assert [each.returncode for each in read] == [0] * len(read)
    oldest, newest = OLDEST[engine_of(older)], newest_version(engine_of(older))
    needed = f" has schema {oldest}, but {newest} is needed. Run: plantstore migrate"
    needed += " --database URL" if older.startswith("postgres") else ""
    for done in refused:
        assert (done.returncode, done.stdout) == (1, "")
        # serve also logs the database server, from another thread.
        assert [line for line in done.stderr.splitlines() if line.endswith(needed)]
    assert f"tokens: 0, schema: {oldest}\n" in call(tmp_path, "check").stdout


@pytest.mark.usefixtures("older")
def test_a_backup_of_an_older_store_has_the_older_schema(tmp_path: Path) -> None:
    done = call(tmp_path, "backup", "copy.db")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(f"Plants: 1, tokens: 0, schema: {OLDEST['sqlite']}\n")


@pytest.mark.usefixtures("older")
def test_the_command_that_a_message_names_migrates_that_database_and_shows_its_progress(
    tmp_path: Path,
) -> None:
    (tmp_path / "a folder").mkdir()
    (tmp_path / "plants.db").rename(tmp_path / "a folder/plants.db")
    refused = call(tmp_path, "token", "revoke", "t", "--database", "sqlite:///a folder/plants.db")

    [named] = re.findall(r"Run: plantstore (.*)", refused.stderr)
    migrated = run(tmp_path, *shlex.split(named))

    newest = newest_version("sqlite")
    assert named == "migrate --database 'sqlite:///a folder/plants.db'"
    assert migrated.returncode == 0
    first, *_, last = migrated.stderr.splitlines()
    assert first == f"migrating schema {OLDEST['sqlite']} to {newest}"
    assert last.startswith(f"migrated to schema {newest} in ")


@pytest.mark.usefixtures("older")
def test_a_service_that_migrates_logs_the_progress_once(tmp_path: Path) -> None:
    newest = newest_version("sqlite")

    with Service(tmp_path, "--workers", "2") as service:
        pass

    events = [json.loads(line)["event"] for line in service.log if line.startswith("{")]
    assert events.count(f"migrating schema {OLDEST['sqlite']} to {newest}") == 1
    assert sum(event.startswith(f"migrated to schema {newest} in ") for event in events) == 1


# Checks, backups and reindexing, on real files and beside a running service.


def test_damaged_plants_are_named_and_their_copy_never_replaces_a_good_one(
    tmp_path: Path, database: str
) -> None:
    with opened(database) as store:
        store.apply_changes([NewPlant(1, "Abies"), NewPlant(2, "Rosa"), NewPlant(3, "Zea")])
    with Service(tmp_path):
        backed_up = call(tmp_path, "backup", "copy.db")
    good = (tmp_path / "copy.db").read_bytes()
    assert backed_up.stdout.endswith("The copy has no errors\n")
    assert (tmp_path / "copy.db").stat().st_mode & 0o777 == 0o600, "the copy contains the tokens"
    file = tmp_path / "plants.db"
    file.write_bytes(file.read_bytes().replace(b"Rosa", b"Rosq"))
    damage = "the name or tag of 1 plants is not what was stored; ids: 2"
    advice = "The database is damaged: restore a backup"

    checked = call(tmp_path, "check")
    copied = call(tmp_path, "backup", "--force", "copy.db")
    repaired = call(tmp_path, "reindex")
    exported = call(tmp_path, "export", "-")
    skipped = call(tmp_path, "export", "-", "--skip-damaged")
    with serving(tmp_path) as (service, client):
        assert client.send("GET", "/plants.ndjson").status == 200
        service.wait_for_log("damaged plants exported")

    returned = [each.returncode for each in (backed_up, checked, copied, repaired)]
    assert returned == [0, 1, 1, 1]
    for done in (checked, copied):
        assert damage in done.stderr.splitlines()
        assert advice in done.stderr.splitlines()
        assert "reindex" not in done.stderr
    assert copied.stderr.splitlines()[-1] == "plantstore: The copy has errors, so it was not kept"
    assert (tmp_path / "copy.db").read_bytes() == good
    assert len(stored_plants(f"sqlite:///{tmp_path}/copy.db")) == 3  # this also checks the copy
    assert repaired.stderr.splitlines()[-1] == (
        f"plantstore: The database is damaged: {damage}. Restore a backup"
    )
    assert exported.returncode == 0
    assert exported.stderr == (
        "Exported 3 plants\n1 damaged plants are among them; `plantstore check` names them\n"
    )
    assert skipped.stderr == (
        "Exported 2 plants\n1 damaged plants were left out; `plantstore check` names them\n"
    )
    assert [json.loads(line)["id"] for line in skipped.stdout.splitlines()] == [1, 3]


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
