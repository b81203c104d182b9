"""Database files are deleted, moved or replaced while one or two workers use them."""

import contextlib
import http.client
import itertools
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from plantstore.plants import NewPlant
from support.command import run
from support.postgres import wait_until
from support.service import Service, stored_plants

# Which acknowledged plants are stored after a restart.
ALL: Final = "all"
LATER: Final = "what was acknowledged later"  # the operator deleted everything else
NO_START: Final = "nothing, and it does not start"  # the operator destroyed the only copy
DESTROYED: Final = "what the log did not hold"  # the operator destroyed the log


class Row(NamedTuple):
    """The damaged files, the damage, the plants that survive, and whether changes are refused.

    A command beside the service is refused too, unless the files at the paths are complete copies.
    """

    suffixes: tuple[str, ...]
    fate: str
    left: str
    is_refused: bool = True

    def __str__(self) -> str:
        return f"{'+'.join(self.suffixes)} {self.fate}"


ROWS = [
    Row(("",), "deleted", NO_START),
    Row(("",), "moved", ALL),
    Row(("",), "replaced", ALL),
    Row(("-wal",), "deleted", DESTROYED),
    Row(("-wal",), "moved", ALL),
    Row(("-wal",), "replaced", ALL),
    Row(("-shm",), "deleted", ALL),
    Row(("-shm",), "moved", ALL),
    Row(("-shm",), "replaced", ALL),
    Row(("-wal", "-shm"), "deleted", DESTROYED),
    Row(("", "-wal", "-shm"), "deleted", LATER, is_refused=False),
]


class Client:
    """Sends plants with new ids, each on a new connection; records the acknowledged ones."""

    def __init__(self, service: Service, token: str, ids: Iterator[int]) -> None:
        self.service = service
        self.token = token
        self.ids = ids
        self.acknowledged: dict[int, NewPlant] = {}

    def send(self, count: int) -> set[int]:
        """Send plants; return the statuses of the responses, with 0 for no response."""
        statuses = set()
        for id_ in itertools.islice(self.ids, count):
            plant, status = NewPlant(id_, "Rosa"), 0
            with (
                self.service.client(self.token) as client,
                contextlib.suppress(OSError, http.client.HTTPException),  # the process has died
            ):
                status = client.post(plant).status
            if status == 200:
                self.acknowledged[id_] = plant
            statuses.add(status)
        return statuses

    def not_ready_message(self) -> str:
        """Wait until the service is not ready; return its message."""
        with self.service.client(None) as client:
            wait_until(lambda: client.send("GET", "/readyz").status == 503)
            return str(client.send("GET", "/readyz").json["message"])


def befall(folder: Path, row: Row) -> Callable[[], None]:
    """Damage the files as the row says; return the repair that an operator does before a start."""
    kept = folder / "kept"
    kept.mkdir()
    for suffix in row.suffixes:
        file = folder / f"plants.db{suffix}"
        if row.fate == "deleted":
            file.unlink()
        else:
            file.rename(kept / file.name)
            if row.fate == "replaced":
                file.write_bytes((kept / file.name).read_bytes())

    def restore() -> None:
        if row.fate == "moved":
            for file in kept.iterdir():
                file.rename(folder / file.name)

    return restore


def import_plants(folder: Path, ids: Iterator[int]) -> tuple[dict[int, NewPlant], str]:
    """Import plants; return those that were acknowledged, and the output on stderr."""
    plants = {id_: NewPlant(id_, "Abies") for id_ in itertools.islice(ids, 500)}
    lines = [f'{{"id":{id_},"name":"Abies"}}\n' for id_ in plants]
    (folder / "more.jsonl").write_text("".join(lines), encoding="utf-8")
    done = run(folder, "import", "more.jsonl")
    return (plants if done.returncode == 0 else {}), done.stderr


def replace_a_worker(service: Service) -> None:
    """Kill a worker; return when another one serves or has logged why it cannot."""

    def begun() -> int:
        return sum("accepting plants" in line or "plantstore: " in line for line in service.log)

    before = begun()
    os.kill(min(service.workers()), signal.SIGKILL)
    wait_until(lambda: begun() > before)


def play(folder: Path, row: Row, workers: int, end: signal.Signals) -> None:
    """Damage the files of a running service, and compare what is left with the row."""
    ids = itertools.count()
    with Service(folder, "--workers", str(workers)) as service:
        client = Client(service, service.token(), ids)
        wait_until(lambda: sum("accepting plants" in line for line in service.log) == workers)
        assert client.send(50) == {200}
        before = dict(client.acknowledged)

        restore = befall(folder, row)

        statuses = client.send(20)
        imported, said = import_plants(folder, ids)
        statuses |= client.send(20)
        if workers == 2:
            replace_a_worker(service)
            statuses |= client.send(20)
        message = client.not_ready_message() if row.is_refused else ""
        service.stop(end)
        log = "".join(service.log)
    restore()
    later = {id_: plant for id_, plant in client.acknowledged.items() if id_ not in before}

    if row.is_refused:
        assert statuses == {503}
        assert "stop all processes" in message
        if row.fate == "replaced":
            assert imported
        else:
            assert (imported, said.count("\n")) == ({}, 1)
            assert said.startswith("plantstore: ")
    assert "Traceback" not in log + said
    if row.left == NO_START:
        done = run(folder, "serve", "--port", "0")
        assert done.returncode == 1
        assert "put the database back" in done.stderr
        return
    stored = stored_plants(service.database)
    if row.left == ALL:
        assert stored == before | later | imported
    elif row.left == LATER:
        assert (stored, later) == (imported, {})
    else:
        assert stored.items() <= before.items()


@pytest.mark.parametrize("row", ROWS, ids=str)
@pytest.mark.parametrize(("workers", "end"), [(1, signal.SIGKILL), (2, signal.SIGTERM)])
def test_no_acknowledged_plant_is_lost_unless_its_only_copy_is_destroyed(
    tmp_path: Path, row: Row, workers: int, end: signal.Signals
) -> None:
    play(tmp_path, row, workers, end)
