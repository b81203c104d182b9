"""Which commands create a database, or migrate one of an older version, and which refuse it."""

import json
import re
import shlex
from pathlib import Path

import pytest

from plantstore.plants import PLANT_BYTES_MAX
from plantstore.storage.migrate import newest_version
from support.command import call, run
from support.other_programs import change, engine_of, make_older
from support.service import Service, serving

VERSION = 3
FOUND = "Plants: 1, tokens: 0, schema: 3\n"


@pytest.fixture
def older(database: str) -> str:
    """Make a store of an older version with one plant."""
    make_older(database, VERSION, 1)
    return database


def newest_of(database: str) -> int:
    """Return the newest version of the schema on the engine of a database."""
    return newest_version(engine_of(database))


@pytest.fixture(autouse=True)
def file(tmp_path: Path) -> Path:
    """Make a file to import."""
    file = tmp_path / "new.csv"
    file.write_text("id,name\n2,b\n", encoding="utf-8")
    return file


@pytest.mark.parametrize(
    "command",
    [
        "token list",
        "token revoke t",
        "check",
        "stats",
        "export",
        "backup copy.db",
        "serve --no-migrate --port 0",
    ],
)
def test_a_command_that_needs_a_database_creates_none(
    tmp_path: Path, file: Path, command: str
) -> None:
    done = call(tmp_path, *command.split())

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "plantstore: No database at plants.db; `plantstore migrate` creates one, and --database"
        " names another\n"
    )
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize(
    ("name", "said"),
    [
        *((name, f"{name} cannot be read: ") for name in ("nowhere.csv", ".", "nowhere.txt")),
        ("/dev/null", "The file is empty"),
    ],
)
def test_an_import_of_a_wrong_path_or_file_creates_no_database(
    tmp_path: Path, file: Path, name: str, said: str
) -> None:
    done = call(tmp_path, "import", name, "--format", "csv")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"plantstore: {said}")
    assert list(tmp_path.iterdir()) == [file]


@pytest.mark.parametrize("command", ["import new.csv", "token create t", "migrate"])
def test_a_command_that_creates_a_database_names_the_file_once(
    tmp_path: Path, command: str
) -> None:
    first, second = (call(tmp_path, *command.split()) for _ in range(2))

    line = f"Created the database {tmp_path}/plants.db"
    assert first.returncode == 0
    assert first.stderr.splitlines().count(line) == 1
    assert line not in second.stderr
    assert "plants.db" not in first.stdout or command == "migrate"


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.usefixtures("older")
def test_a_command_that_only_reads_leaves_an_older_schema_as_it_is(tmp_path: Path) -> None:
    commands = ("token list", "stats", "export", "check", "check")

    done = [call(tmp_path, *command.split()) for command in commands]

    assert [each.returncode for each in done] == [0] * len(commands)
    assert done[-1].stdout.startswith(FOUND)


@pytest.mark.usefixtures("older")
def test_a_backup_of_an_older_store_has_the_older_schema(tmp_path: Path) -> None:
    done = call(tmp_path, "backup", "copy.db")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(FOUND)


@pytest.mark.engines("sqlite", "postgres")
def test_a_command_that_writes_refuses_an_older_schema_and_names_the_command_that_migrates_it(
    tmp_path: Path, older: str
) -> None:
    refused = [
        call(tmp_path, "token", "create", "t"),
        call(tmp_path, "token", "revoke", "t"),
        call(tmp_path, "import", "new.csv"),
        run(tmp_path, "serve", "--no-migrate", "--port", "0"),
    ]

    for done in refused:
        assert (done.returncode, done.stdout) == (1, "")
        needed = f" has schema 3, but {newest_of(older)} is needed. Run: plantstore migrate"
        needed += " --database URL" if older.startswith("postgres") else ""
        # serve also logs the database server, from another thread.
        assert [line for line in done.stderr.splitlines() if line.endswith(needed)]
    assert call(tmp_path, "check").stdout.startswith(FOUND)


@pytest.mark.parametrize("folder", [".", "a folder"])
@pytest.mark.usefixtures("older")
def test_the_command_that_a_message_names_migrates_that_database_and_shows_its_progress(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "plants.db").rename(tmp_path / folder / "plants.db")
    name = str(Path(folder, "plants.db"))
    refused = call(tmp_path, "token", "revoke", "t", "--database", f"sqlite:///{name}")

    [named] = re.findall(r"Run: plantstore (.*)", refused.stderr)
    migrated = run(tmp_path, *shlex.split(named))

    newest = newest_version("sqlite")
    needed = f"plantstore: {name} has schema {VERSION}, but {newest} is needed. "
    assert refused.stderr.startswith(needed)
    assert named == ("migrate" if folder == "." else f"migrate --database 'sqlite:///{name}'")
    assert migrated.returncode == 0
    first, *_, last = migrated.stderr.splitlines()
    assert first == f"migrating schema {VERSION} to {newest}"
    assert last.startswith(f"migrated to schema {newest} in ")


def test_a_service_that_migrates_logs_the_progress_once(tmp_path: Path, older: str) -> None:
    newest = newest_of(older)

    with Service(tmp_path, "--workers", "2") as service:
        pass

    events = [json.loads(line)["event"] for line in service.log if line.startswith("{")]
    assert events.count(f"migrating schema {VERSION} to {newest}") == 1
    assert sum(event.startswith(f"migrated to schema {newest} in ") for event in events) == 1


@pytest.mark.engines("sqlite", "postgres")
def test_a_migration_counts_plants_that_are_too_large_now_which_are_read_and_deleted(
    tmp_path: Path, older: str
) -> None:
    large = "×" * PLANT_BYTES_MAX
    change(older, f"INSERT INTO plants (id, name) VALUES (7, '{large}'), (8, '{large}')")

    migrated = call(tmp_path, "migrate")
    exported = call(tmp_path, "export")
    with serving(tmp_path) as (_, client):
        page = client.send("GET", "/plants?after=6")
        replaced = client.send_record("PUT", "/plants/7", large, None)
        deleted = client.send("DELETE", "/plants/7")

    assert f"plants larger than {PLANT_BYTES_MAX} bytes, as no new plant may be: 2;" in (
        migrated.stderr
    )
    assert exported.stdout.count(large) == 2
    assert [plant["name"] for plant in json.loads(page.body)] == [large, large]
    assert (replaced.status, deleted.status) == (413, 204)
