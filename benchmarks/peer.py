"""A server beside ours: how it is set up, started, and read after."""

import contextlib
import json
import secrets
import sqlite3
import subprocess
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from harness import HERE, Server, free_port, running

APPS = HERE / "peers"
DATABASE = "plants.db"


@dataclass(frozen=True)
class Peer:
    """A server that takes creates, and what one has to know to send it some.

    Attributes:
        name: that stands in the table.
        program: that has to be there; a peer without is left out.
        prepare: makes the empty database in a folder, and returns the token.
        command: starts it, on a folder and a port, with the token.
        versions: tells what it is made of.
        setting: how it is set, in words.
        target: where creates go.
        body: the form of a create, in which %s is the plant.
        file: that it stores into.

    """

    name: str
    program: Path
    prepare: Callable[[Path], str]
    command: Callable[[Path, int, str], list[str]]
    versions: Callable[[], str]
    setting: str
    target: str = "/plants"
    body: str = "%s"
    file: str = DATABASE

    @contextlib.contextmanager
    def serving(self) -> Iterator[tuple[Server, Path]]:
        """Run it on an empty database, in a folder of its own, until the block ends."""
        with tempfile.TemporaryDirectory() as name:
            folder, port = Path(name), free_port()
            token = self.prepare(folder)
            with running(self.command(folder, port, token), port, token) as server:
                yield server, folder

    def stored(self, folder: Path) -> set[int]:
        """Return the ids that its file has, once it is gone."""
        file = folder / self.file
        if file.suffix == ".json":
            return {plant["id"] for plant in json.loads(file.read_text(encoding="utf-8"))["plants"]}
        with contextlib.closing(sqlite3.connect(file)) as connection:
            return {plant for (plant,) in connection.execute("SELECT id FROM plants")}


def any_token(_folder: Path) -> str:
    """Return a token for those that are told theirs when they start."""
    return secrets.token_hex()


def make_table(file: Path) -> None:
    """Make the table for those that serve one that is there; they leave the journal as it is."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)"
        )


def said(*command: str) -> str:
    """Run a program, and return what it says."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
