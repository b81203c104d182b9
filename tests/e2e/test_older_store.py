"""Which commands create a database or migrate an older one, and what a newer one is refused."""

import json
import re
import shlex
from pathlib import Path

import pytest

from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from plantstore.storage.migrate import newest_version
from support.command import call, run
from support.other_programs import change, engine_of, make_older, set_version
from support.service import Service, serving

VERSION = 3
FOUND = "Plants: 1, tokens: 0, schema: 3\n"


@pytest.fixture
def older(database: str) -> str:
    """Make a store of an older version with one plant."""
    make_older(database, VERSION, 1)
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
        ("import nowhere.csv", "nowhere.csv cannot be read: "),
        ("import . --format csv", ". cannot be read: "),
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
    newest = newest_version(engine_of(older))
    needed = f" has schema {VERSION}, but {newest} is needed. Run: plantstore migrate"
    needed += " --database URL" if older.startswith("postgres") else ""
    for done in refused:
        assert (done.returncode, done.stdout) == (1, "")
        # serve also logs the database server, from another thread.
        assert [line for line in done.stderr.splitlines() if line.endswith(needed)]
    assert call(tmp_path, "check").stdout.startswith(FOUND)


@pytest.mark.usefixtures("older")
def test_a_backup_of_an_older_store_has_the_older_schema(tmp_path: Path) -> None:
    done = call(tmp_path, "backup", "copy.db")

    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith(FOUND)


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
    assert first == f"migrating schema {VERSION} to {newest}"
    assert last.startswith(f"migrated to schema {newest} in ")


@pytest.mark.usefixtures("older")
def test_a_service_that_migrates_logs_the_progress_once(tmp_path: Path) -> None:
    newest = newest_version("sqlite")

    with Service(tmp_path, "--workers", "2") as service:
        pass

    events = [json.loads(line)["event"] for line in service.log if line.startswith("{")]
    assert events.count(f"migrating schema {VERSION} to {newest}") == 1
    assert sum(event.startswith(f"migrated to schema {newest} in ") for event in events) == 1


@pytest.mark.engines("sqlite", "postgres")
def test_plants_that_are_too_large_now_are_read_and_deleted(tmp_path: Path, older: str) -> None:
    large = "×" * PLANT_BYTES_MAX
    change(older, f"INSERT INTO plants (id, name) VALUES (7, '{large}'), (8, '{large}')")

    call(tmp_path, "migrate")
    exported = call(tmp_path, "export")
    with serving(tmp_path) as (_, client):
        page = client.send("GET", "/plants?after=6")
        replaced = client.send_record("PUT", "/plants/7", large, None)
        deleted = client.send("DELETE", "/plants/7")

    assert exported.stdout.count(large) == 2
    assert [plant["name"] for plant in json.loads(page.body)] == [large, large]
    assert (replaced.status, deleted.status) == (413, 204)


@pytest.mark.engines("sqlite", "postgres")
def test_a_service_whose_database_a_newer_version_has_migrated_says_why_it_stores_nothing(
    tmp_path: Path, database: str
) -> None:
    """tests/contract/test_fence.py checks that nothing is stored."""
    known = newest_version(engine_of(database))
    with serving(tmp_path) as (service, client):
        assert client.post(NewPlant(1, "Abies")).status == 200
        set_version(database, known + 1)

        refused = client.post(NewPlant(2, "Rosa"))
        ready = client.send("GET", "/readyz")
        read = client.send("GET", "/plants/1")
        set_version(database, known)

    said = "its schema is of another version of the Plant Store"
    assert (refused.status, refused.json["error"], refused.headers["retry-after"]) == (
        *(503, 5003),
        "1",
    )
    message = f"The database cannot be written: {said}; nothing was done"
    assert refused.json["message"] == message
    assert (ready.status, read.status) == (503, 200)
    assert said in ready.json["message"]
    [failed] = service.logged("commit failed")
    assert f"the schema has version {known + 1}, and this process knows version {known}" in (
        f"{failed}"
    )
    assert "restart this process with the installed version" in f"{failed}"
    assert any("not ready" in line for line in service.log)
