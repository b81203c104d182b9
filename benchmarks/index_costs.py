"""What searches cost: imports and creates with the words of names in the index, and without.

Both are the same code and index the tags. `unindexed.py` is the command `plantstore` without the
words.
"""

import contextlib
import resource
import secrets
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import apsw

from harness import HERE, Server, free_port, make_token, plantstore, running, spread
from loads import Loads, Requests
from transfer import command as import_command

CONNECTIONS = 64

WITH, WITHOUT = "with words of names", "without"
EMPTY, FULL = "empty", "full"

# The row of the result below a ratio of rates.
CPU = "CPU time of the service, in the same rounds"

# Some name in each imported file has a word that begins so.
_BEGINNING = "a*"
_HAS_WORDS = "SELECT EXISTS (SELECT 1 FROM plant_words WHERE plant_words MATCH ?)"


@dataclass(frozen=True)
class Import:
    """The times of an import."""

    seconds: float
    cpu_seconds: float


@contextlib.contextmanager
def serving(database: Path, how: str = WITH) -> Iterator[Server]:
    """Run the service on a file until the block ends."""
    port = free_port()
    scopes = [f"--scope=plants:{action}" for action in ("create", "read", "update")]
    token = make_token(database, secrets.token_hex(), *scopes)
    with running(_command(plantstore(database, port), how), port, token) as server:
        yield server


def imports(databases: dict[str, Path], file: Path, plants: int, rounds: int) -> list[list[str]]:
    """Import a file into both databases in turn, each time anew; return rows for the result."""
    measured: dict[str, list[Import]] = {how: [] for how in databases}
    for _ in range(rounds):
        for how, database in databases.items():
            measured[how].append(_import(file, database, plants, how))
            print(f"import {how}: {measured[how][-1]}", file=sys.stderr)
    pairs = list(zip(measured[WITH], measured[WITHOUT], strict=True))
    seconds, cpu = (
        ", ".join(
            f"{median([getattr(each, figure) for each in seen]):.1f} s"
            for seen in measured.values()
        )
        for figure in ("seconds", "cpu_seconds")
    )
    figure = f"import of {plants:,} plants {WITH} ÷ {WITHOUT}"
    ratio = spread([b.seconds / a.seconds for a, b in pairs])
    return [
        [f"{figure} ({seconds})", ratio, "≥ 0.6"],
        [
            f"CPU time of the imports ({cpu})",
            spread([a.cpu_seconds / b.cpu_seconds for a, b in pairs]),
            "-",
        ],
    ]


def creates(
    loads: Loads, databases: dict[str, Path], names: Path, stored: int, rounds: int
) -> list[list[str]]:
    """Create plants in empty and in full databases in turn; return rows for the result."""
    for number in range(rounds):
        for kind in (EMPTY, FULL):
            for how, full in databases.items():
                with tempfile.TemporaryDirectory() as folder:
                    database = full if kind == FULL else Path(folder) / "empty.db"
                    with serving(database, how) as server:
                        first_id = (number + 1) * 10**12
                        what: Requests = {"names": str(names), "first_id": first_id}
                        warm_up = what | {"first_id": first_id + 10**11}
                        loads.measure(_load(kind, how), server, CONNECTIONS, what, warm_up)
    rows = []
    for kind, size in ((EMPTY, "empty"), (FULL, f"{stored:,} plants")):
        compared = _load(kind, WITH), _load(kind, WITHOUT)
        figure = f"creates/s {WITH} ÷ {WITHOUT}, {size}"
        rows.append([figure, loads.ratio(*compared), "≥ 0.85"])
        rows.append([CPU, loads.cpu_ratio(*compared), "-"])
    return rows


def _load(kind: str, how: str) -> str:
    return f"creates, {kind} database, {how}"


def _command(command: list[str], how: str) -> list[str]:
    """Return a command `python -m plantstore ...`, with the words of names or without."""
    return command if how == WITH else [command[0], str(HERE / "unindexed.py"), *command[3:]]


def _import(file: Path, database: Path, plants: int, how: str) -> Import:
    """Import a file into a new database.

    Raises:
        RuntimeError: plants are missing, or words are indexed without reason or missing.

    """
    for old in database.parent.glob(f"{database.name}*"):
        old.unlink()
    make_token(database)
    cpu_seconds, began = _cpu_of_children(), time.perf_counter()
    command = _command(import_command("plantstore import", database, file), how)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    measured = Import(time.perf_counter() - began, _cpu_of_children() - cpu_seconds)
    with contextlib.closing(apsw.Connection(str(database))) as connection:
        stored = connection.execute("SELECT plants FROM totals").get
        has_words = bool(connection.execute(_HAS_WORDS, (_BEGINNING,)).get)
    if stored != plants or has_words is not (how == WITH):
        raise RuntimeError(f"an import {how}: {stored=}, {has_words=}")
    return measured


def _cpu_of_children() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime
