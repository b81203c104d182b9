"""A server that is compared with ours: how it is prepared and started, and how its data is read."""

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
    """A server that accepts creates, and what is needed to send them.

    Attributes:
        name: its name in the table.
        program: the program that must be installed; otherwise the server is left out.
        prepare: creates the empty database in a folder, and returns the token.
        command: returns the command that starts it, for a folder, a port and the token.
        versions: returns the versions of its packages, as text.
        setting: its configuration, as text.
        target: the path of creates.
        body: the body of a create, in which %s stands for the plant.
        file: the file in which it stores plants.

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
        """Run it on an empty database in its own folder until the block ends."""
        with tempfile.TemporaryDirectory() as name:
            folder, port = Path(name), free_port()
            token = self.prepare(folder)
            with running(self.command(folder, port, token), port, token) as server:
                yield server, folder

    def stored(self, folder: Path) -> set[int]:
        """Return the ids in its file; call this after the server has ended."""
        file = folder / self.file
        if file.suffix == ".json":
            return {plant["id"] for plant in json.loads(file.read_text(encoding="utf-8"))["plants"]}
        with contextlib.closing(sqlite3.connect(file)) as connection:
            return {plant for (plant,) in connection.execute("SELECT id FROM plants")}


def any_token(_folder: Path) -> str:
    """Return a token for servers that get their token at the start."""
    return secrets.token_hex()


def make_table(file: Path) -> None:
    """Create the table, for servers that need an existing one and keep its journal mode."""
    with contextlib.closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute(
            "CREATE TABLE plants (id INTEGER PRIMARY KEY, name TEXT NOT NULL, tag TEXT)"
        )


def said(*command: str) -> str:
    """Run a program and return its output."""
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout.strip()
