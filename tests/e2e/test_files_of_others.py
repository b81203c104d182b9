"""Files of other programs, and damaged files, where a command expects a Plant Store database."""

import contextlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.storage.migrate import migrations
from plantstore.storage.sqlite.file import APPLICATION_ID
from plantstore.storage.sqlite.store import SQLiteStore
from support.command import run
from support.service import stored_plants

COMMANDS = [
    ["serve", "--port", "0"],
    ["serve", "--port", "0", "--workers", "2"],
    ["serve", "--port", "0", "--workers", "2", "--no-migrate"],
    ["import", "new.jsonl"],
    ["export"],
    ["token", "create", "t"],
    ["token", "list"],
    ["token", "revoke", "t"],
    ["check"],
    ["backup", "copy.db"],
    ["migrate"],
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


# Stores a plant and kills itself, so that the write-ahead log remains.
STORE_AND_DIE = """
import os, signal, sys
from plantstore.plants import NewPlant
from plantstore.storage import open_store
store = open_store(sys.argv[1])
store.apply_changes([NewPlant(1, "Rosa")])
os.kill(os.getpid(), signal.SIGKILL)
"""


@contextlib.contextmanager
def other_program(folder: Path, *statements: str) -> Iterator[None]:
    """Run SQL in another process, which keeps the database open until the block ends."""
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, *statements],
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert process.stdout.readline() == "done\n"
        yield
    finally:
        process.kill()
        process.wait()
        process.stdin.close()
        process.stdout.close()


def left_by(*statements: str) -> Callable[[Path], None]:
    def make(folder: Path) -> None:
        with other_program(folder, *statements):
            pass

    return make


def make_garbage(folder: Path) -> None:
    (folder / "plants.db").write_bytes(b"roses are red " * 1000)


def make_garbage_with_a_log(folder: Path) -> None:
    make_garbage(folder)
    (folder / "plants.db-wal").write_bytes(b"violets are blue " * 1000)


def make_cut_off(folder: Path) -> None:
    SQLiteStore(str(folder / "plants.db")).close()
    os.truncate(folder / "plants.db", 5000)


def make_a_folder(folder: Path) -> None:
    (folder / "plants.db").mkdir()


def make_newer(folder: Path) -> None:
    first_schema = [*"".join(migrations("sqlite")[:1]).split(";\n"), WAL]
    left_by(
        f"PRAGMA application_id = {APPLICATION_ID}", *first_schema, "PRAGMA user_version = 999"
    )(folder)


def make_a_log_without_a_database(folder: Path) -> None:
    left_by(WAL, SONGS, A_SONG)(folder)
    (folder / "plants.db").unlink()


def make_a_pipe(folder: Path) -> None:
    os.mkfifo(folder / "plants.db")


CASES: dict[str, tuple[Callable[[Path], None], str]] = {
    "a log with content": (left_by(SONGS, WAL, A_SONG), "another program's"),
    "all of it in the log": (left_by(WAL, SONGS, A_SONG), "another program's"),
    "empty": (left_by("PRAGMA application_id = 7"), "another program's"),
    "empty, with a log": (left_by(*EMPTY, WAL, "PRAGMA application_id = 7"), "another program's"),
    "a large page in the log": (
        left_by("PRAGMA page_size = 65536", WAL, SONGS, A_SONG),
        "another program's",
    ),
    "a journal to play back": (
        left_by("PRAGMA cache_size = 10", SONGS, MANY_SONGS, "BEGIN", MANY_SONGS),
        "another program's",
    ),
    "garbage": (make_garbage, "not a database"),
    "garbage with a log": (make_garbage_with_a_log, "not a database"),
    "cut off": (make_cut_off, "malformed"),
    "of a newer version": (make_newer, "newer Plant Store"),
    "a log without a database": (make_a_log_without_a_database, "put the database back"),
    "a folder": (make_a_folder, "not a regular file"),
    "a pipe": (make_a_pipe, "not a regular file"),
}


def contents(folder: Path) -> dict[str, bytes | None]:
    """Return the contents of all files; of the index of a log, which has no data, only the name."""
    return {
        file.name: file.read_bytes() if file.is_file() and file.suffix != ".db-shm" else None
        for file in folder.iterdir()
    }


def assert_refused(folder: Path, said: str, commands: list[list[str]]) -> None:
    (folder / "new.jsonl").write_text('{"id":1,"name":"Rosa"}\n', encoding="utf-8")
    before = contents(folder)

    for command in commands:
        done = run(folder, *command)
        assert (done.returncode, done.stdout) == (1, ""), command
        [line] = done.stderr.splitlines()
        assert line.startswith("plantstore: "), command
        assert "plants.db" in line, command
        assert said in line, command
        assert contents(folder) == before, command


@pytest.mark.parametrize("case", CASES)
def test_a_foreign_or_damaged_file_is_refused_and_stays_unchanged(
    tmp_path: Path, case: str
) -> None:
    make, said = CASES[case]

    make(tmp_path)

    assert_refused(tmp_path, said, [["serve", "--port", "0"], ["export"], ["migrate"]])


def test_every_command_refuses_the_database_of_another_program(
    tmp_path: Path,
) -> None:
    with other_program(tmp_path, WAL, SONGS, A_SONG):
        assert_refused(tmp_path, "another program's", COMMANDS)

    assert_refused(tmp_path, "another program's", [["check"], ["backup", "copy.db"]])


def test_a_database_whose_content_is_all_in_the_write_ahead_log_is_opened(
    tmp_path: Path, database: str
) -> None:
    with other_program(tmp_path, *EMPTY, WAL):
        program = [sys.executable, "-c", STORE_AND_DIE, database]
        subprocess.run(program, check=False, timeout=60)
    assert (tmp_path / "plants.db").read_bytes()[68:72] == bytes(4), (
        "the file has an application id"
    )

    done = run(tmp_path, "check")

    assert (done.returncode, done.stdout) == (
        0,
        "Plants: 1, tokens: 0, schema: 5\nNo errors found\n",
    )
    assert stored_plants(database) == {1: NewPlant(1, "Rosa")}
