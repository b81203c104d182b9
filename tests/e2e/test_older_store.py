"""Which commands work with a store of an older version, and how it is migrated."""

import json
import re
import shlex
from pathlib import Path

import apsw
import pytest

from plantstore.storage.migrate import migrations
from plantstore.storage.sqlite.file import APPLICATION_ID
from support.command import run
from support.postgres import execute
from support.service import Service

VERSION = 3
PROGRESS = [
    "migrating schema 3 to 5",
    "applying migration 4",
    "applying migration 5",
    "indexed 0 of 1 plants",
    "migrated to schema 5 in S s",
]


@pytest.fixture(autouse=True)
def older(tmp_path: Path, database: str) -> str:
    """Make a store of an older version with one plant, and a file to import."""
    (tmp_path / "new.csv").write_text("id,name\n2,b\n", encoding="utf-8")
    plant = "INSERT INTO plants (id, name) VALUES (1, 'a')"
    if database.startswith("postgresql"):
        for version, step in enumerate(migrations("postgres")[:VERSION], 1):
            execute(database, step)
            execute(database, f"INSERT INTO plantstore_migrations VALUES ({version})")
        execute(database, plant)
        return database
    connection = apsw.Connection(database.removeprefix("sqlite:///"))
    for step in (*migrations("sqlite")[:VERSION], plant):
        connection.execute(step)
    connection.pragma("application_id", APPLICATION_ID)
    connection.pragma("user_version", VERSION)
    connection.close()
    return database


def found(tmp_path: Path) -> str:
    return run(tmp_path, "check").stdout


def without_seconds(lines: list[str]) -> list[str]:
    return [re.sub(r"\d+\.\d s$", "S s", line) for line in lines]


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize("command", ["token list", "stats", "export", "check"])
def test_a_command_that_only_reads_leaves_an_older_schema_as_it_is(
    tmp_path: Path, command: str
) -> None:
    done = run(tmp_path, *command.split())

    assert done.returncode == 0
    assert found(tmp_path).startswith("Plants: 1, tokens: 0, schema: 3\n")


def test_a_backup_of_an_older_store_has_the_older_schema(tmp_path: Path) -> None:
    done = run(tmp_path, "backup", "copy.db")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Plants: 1, tokens: 0, schema: 3\n")


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize(
    "command",
    ["token create t", "token revoke t", "import new.csv", "serve --no-migrate --port 0"],
)
def test_a_command_that_writes_refuses_an_older_schema_and_names_the_command_that_migrates_it(
    tmp_path: Path, command: str
) -> None:
    done = run(tmp_path, *command.split())

    assert (done.returncode, done.stdout) == (1, "")
    *_, line = done.stderr.splitlines()  # serve logs the database server before
    assert line.endswith(" has schema 3, but 5 is needed. Run: plantstore migrate")
    assert found(tmp_path).startswith("Plants: 1, tokens: 0, schema: 3\n")


@pytest.mark.parametrize("folder", [".", "a folder"])
def test_the_command_that_a_message_names_migrates_that_database_and_shows_its_progress(
    tmp_path: Path, folder: str
) -> None:
    (tmp_path / folder).mkdir(exist_ok=True)
    (tmp_path / "plants.db").rename(tmp_path / folder / "plants.db")
    name = str(Path(folder, "plants.db"))
    refused = run(tmp_path, "token", "revoke", "t", "--database", f"sqlite:///{name}")

    [named] = re.findall(r"Run: plantstore (.*)", refused.stderr)
    migrated = run(tmp_path, *shlex.split(named))

    assert refused.stderr.startswith(f"plantstore: {name} has schema 3, but 5 is needed. ")
    assert named == ("migrate" if folder == "." else f"migrate --database 'sqlite:///{name}'")
    assert migrated.returncode == 0
    assert without_seconds(migrated.stderr.splitlines()) == PROGRESS


@pytest.mark.engines("sqlite", "postgres")
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_migrates_logs_the_progress_once(tmp_path: Path, workers: str) -> None:
    with Service(tmp_path, "--workers", workers) as service:
        pass

    events = [json.loads(line)["event"] for line in service.log if line.startswith("{")]
    assert [line for line in without_seconds(events) if line in PROGRESS] == PROGRESS
