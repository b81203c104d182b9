"""Which commands create a database file, and which commands need an existing one."""

import re
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.command import run
from support.service import Service, stored_plants


@pytest.mark.parametrize(
    "command",
    [
        ["token", "list"],
        ["token", "revoke", "t"],
        ["check"],
        ["export"],
        ["export", "copy.csv"],
        ["backup", "copy.db"],
        ["serve", "--no-migrate", "--port", "0"],
    ],
)
def test_a_command_that_needs_a_database_creates_none(tmp_path: Path, command: list[str]) -> None:
    (tmp_path / "new.csv").write_text("id,name\n1,a\n", encoding="utf-8")

    done = run(tmp_path, *command)

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "plantstore: No database at plants.db; `plantstore migrate` creates one, and --database"
        " names another\n"
    )
    assert [file.name for file in tmp_path.iterdir()] == ["new.csv"]


@pytest.mark.parametrize("file", ["nowhere.csv", ".", "nowhere.txt"])
def test_an_import_of_a_wrong_path_creates_no_database(tmp_path: Path, file: str) -> None:
    done = run(tmp_path, "import", file, "--format", "csv")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith(f"plantstore: {file} cannot be read: ")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command", [["import", "new.csv"], ["token", "create", "t"], ["migrate"]], ids=" ".join
)
def test_a_command_that_creates_a_database_names_the_file_once(
    tmp_path: Path, command: list[str]
) -> None:
    (tmp_path / "new.csv").write_text("id,name\n1,a\n", encoding="utf-8")

    first, second = (run(tmp_path, *command) for _ in range(2))

    line = f"Created the database {tmp_path}/plants.db"
    assert first.returncode == 0
    assert first.stderr.splitlines().count(line) == 1
    assert line not in second.stderr
    assert "plants.db" not in first.stdout or command == ["migrate"]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_creates_a_database_names_the_file_once(
    tmp_path: Path, workers: str
) -> None:
    with Service(tmp_path, "--workers", workers) as first:
        pass
    with Service(tmp_path, "--workers", workers) as second:
        pass

    [line] = [line for line in first.log if "database created" in line]
    assert f'"file": "{tmp_path}/plants.db"' in line
    assert not any("database created" in line for line in second.log)


def test_an_import_from_a_pipe_creates_the_database(tmp_path: Path, database: str) -> None:
    done = run(tmp_path, "import", "-", "--format", "jsonl", input='{"id":1,"name":"a"}\n')

    assert done.returncode == 0
    assert re.fullmatch(r"Created the database .*/plants\.db\n", done.stderr)
    assert stored_plants(database) == {1: NewPlant(1, "a")}
