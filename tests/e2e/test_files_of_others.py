"""Database files that a command must not change, may not write, or cannot use."""

import contextlib
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.storage.migrate import newest_version
from plantstore.storage.sqlite.sqlite_store import SQLiteStore
from support.command import call, run_unprivileged
from support.service import Service, opened, serving, stored_plants

COMMANDS = [
    "import new.jsonl",
    "export",
    "token create t",
    "token list",
    "token revoke t",
    "check",
    "backup copy.db",
    "migrate",
    "reindex",
    "undo no-such-set-0123",
    "stats",
    "serve --port 0",
    "serve --port 0 --workers 2 --no-migrate",
]

PROGRAM = """
import sqlite3, sys
connection = sqlite3.connect("plants.db", isolation_level=None)
for statement in sys.argv[1:]:
    connection.execute(statement).fetchall()
print("done", flush=True)
input()
"""
WAL = "PRAGMA journal_mode = WAL"
SONGS = "CREATE TABLE songs (title TEXT)"
EMPTY = [SONGS, "DROP TABLE songs"]
A_SONG = "INSERT INTO songs VALUES ('Die Forelle')"
# Enough rows that SQLite writes some of them to the file before the commit, with a journal.
MANY_SONGS = """
WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 3000)
INSERT INTO songs SELECT hex(randomblob(500)) FROM n
"""


@contextlib.contextmanager
def other_program(folder: Path, *statements: str) -> Iterator[None]:
    """Run SQL in another process, which keeps the database open until the block ends."""
    command = [sys.executable, "-c", PROGRAM, *statements]
    with subprocess.Popen(
        command, cwd=folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline() == "done\n"
            yield
        finally:
            process.kill()


def killed_after(*statements: str) -> Callable[[Path], None]:
    """Return a function that leaves the files of a program that was killed after these."""

    def leave(file: Path) -> None:
        with other_program(file.parent, *statements):
            pass

    return leave


def make_cut_off(file: Path) -> None:
    SQLiteStore(str(file)).close()
    os.truncate(file, 5000)


FOREIGN = "another program's"
REFUSED: dict[str, tuple[Callable[[Path], object], str]] = {
    "all of it in the log": (killed_after(WAL, SONGS, A_SONG), FOREIGN),
    "empty": (killed_after("PRAGMA application_id = 7"), FOREIGN),
    "empty, with a log": (killed_after(*EMPTY, WAL, "PRAGMA application_id = 7"), FOREIGN),
    "a large page in the log": (
        killed_after("PRAGMA page_size = 65536", WAL, SONGS, A_SONG),
        FOREIGN,
    ),
    "a journal to play back": (
        killed_after("PRAGMA cache_size = 10", SONGS, MANY_SONGS, "BEGIN", MANY_SONGS),
        FOREIGN,
    ),
    "garbage": (lambda file: file.write_bytes(b"roses are red " * 1000), "not a database"),
    "cut off": (make_cut_off, "malformed"),
    "a pipe": (os.mkfifo, "not a regular file"),
}


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the contents of all files; of the index of a log, which has no data, only the name."""
    return {
        file.name: file.read_bytes() if file.is_file() and file.suffix != ".db-shm" else None
        for file in folder.iterdir()
    }


def assert_refused(folder: Path, said: str, commands: Sequence[str]) -> None:
    (folder / "new.jsonl").write_text('{"id":1,"name":"Rosa"}\n', encoding="utf-8")
    before = contents(folder)

    for command in commands:
        done = call(folder, *command.split())
        assert (done.returncode, done.stdout) == (1, ""), command
        [line] = done.stderr.splitlines()
        assert line.startswith("plantstore: "), command
        assert "plants.db" in line, command
        assert said in line, command
        assert contents(folder) == before, command


@pytest.mark.parametrize("case", REFUSED)
def test_a_foreign_or_damaged_file_is_refused_and_stays_unchanged(
    tmp_path: Path, case: str
) -> None:
    make, said = REFUSED[case]

    make(tmp_path / "plants.db")

    assert_refused(tmp_path, said, ["export", "migrate"])


def test_every_command_refuses_the_database_of_another_program(tmp_path: Path) -> None:
    with other_program(tmp_path, WAL, SONGS, A_SONG):
        assert_refused(tmp_path, FOREIGN, COMMANDS)

    assert_refused(tmp_path, FOREIGN, ["check", "backup copy.db"])


def test_a_database_whose_content_is_all_in_the_write_ahead_log_is_opened(
    tmp_path: Path, database: str
) -> None:
    killed_after(*EMPTY, WAL)(tmp_path / "plants.db")
    # As a crash leaves the files.
    other = tmp_path / "other"
    other.mkdir()
    for file in tmp_path.glob("plants.db*"):
        shutil.copy(file, other)
    with opened(f"sqlite:///{other}/plants.db") as store:
        store.apply_changes([NewPlant(1, "Rosa")])
        shutil.copytree(other, tmp_path, dirs_exist_ok=True)
    assert (tmp_path / "plants.db").read_bytes()[68:72] == bytes(4), "it has an application id"

    done = call(tmp_path, "check")

    found = f"Plants: 1, tokens: 0, schema: {newest_version('sqlite')}\nNo errors found\n"
    assert (done.returncode, done.stdout) == (0, found)
    assert stored_plants(database) == {1: NewPlant(1, "Rosa")}


def test_a_database_with_hard_links_is_used_with_a_warning(tmp_path: Path) -> None:
    """`cp -al`, rsnapshot and others make them."""
    SQLiteStore(str(tmp_path / "plants.db")).close()
    (tmp_path / "second.db").hardlink_to(tmp_path / "plants.db")

    called = [call(tmp_path, *each) for each in (("token", "create", "t"), ("check",))]
    with Service(tmp_path) as service:
        pass

    warning = f"Warning: {tmp_path}/plants.db has several names (hard links)"
    assert all(done.stderr.startswith(warning) for done in called)
    assert [done.returncode for done in called] == [0, 0]
    assert service.has_logged("database has several names (hard links)")


def test_a_second_name_of_a_database_in_use_is_refused_and_creates_no_file(tmp_path: Path) -> None:
    with serving(tmp_path) as (_, client):
        assert client.post(NewPlant(1, "Rosa")).status == 200
        (tmp_path / "second.db").hardlink_to(tmp_path / "plants.db")
        before = sorted(tmp_path.iterdir())

        done = call(tmp_path, "check", "--database", "sqlite:///second.db")

        assert (done.returncode, done.stdout) == (1, "")
        assert "in use by another process" in done.stderr
        assert sorted(tmp_path.iterdir()) == before
        assert client.post(NewPlant(2, "Rosa")).status == 200


@pytest.mark.parametrize(
    ("mode", "folder_mode", "said"),
    [
        (
            *(0o444, 0o555),
            "may not be read and written by this user; run the command as the service's user",
        ),
        (
            *(0o222, 0o555),
            "may not be read and written by this user; run the command as the service's user",
        ),
        (0o666, 0o555, "cannot be opened: attempt to write a readonly database"),
    ],
)
def test_an_unwritable_file_or_folder_is_a_one_line_error_and_stays_unchanged(
    mode: int, folder_mode: int, said: str
) -> None:
    with tempfile.TemporaryDirectory() as name:  # only its owner may enter pytest's `tmp_path`
        folder = Path(name)
        SQLiteStore(str(folder / "plants.db")).close()
        (folder / "plants.db").chmod(mode)
        folder.chmod(folder_mode)
        before = contents(folder)

        done = [run_unprivileged(folder, *each.split()) for each in ("export", "serve --port 0")]

        for each in done:
            assert (each.returncode, each.stdout) == (1, "")
            assert each.stderr == f"plantstore: The database plants.db {said}\n"
        assert contents(folder) == before
