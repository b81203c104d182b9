"""Rounds of load that end with kill -9; all rounds use the same database."""

import contextlib
import json
import os
import random
import signal
import subprocess
from pathlib import Path

from plantstore.plants import NewPlant
from support.load import Load
from support.service import PLANTSTORE, Service, stored_plants

# More rows than fit into a pipe, so that all of them are written only after the import has
# begun to read; few enough for one transaction.
IMPORTED_ROWS = 3_000


class Survival:
    """What must survive on the database of a folder.

    `sent` has the plants that may be stored, `acknowledged` those that must be stored, and
    `lost` the ids of acknowledged plants that were missing or changed after a round.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.sent: dict[int, NewPlant] = {}
        self.acknowledged: dict[int, NewPlant] = {}
        self.lost: set[int] = set()
        self.token = ""
        self.folder = folder
        self.moments = random.Random(seed)

    def look(self, service: Service) -> set[int]:
        """Compare the database with what was sent and acknowledged; return the stored ids."""
        stored = stored_plants(service.database)
        self.lost |= {id_ for id_, plant in self.acknowledged.items() if stored.get(id_) != plant}
        assert stored.items() <= self.sent.items(), "a plant is stored that was not sent"
        return set(stored)


class Crashes(Survival):
    """A service that is killed repeatedly, and the plants that must survive.

    `kills` counts the kills: of a service with its workers, or of an import.
    """

    def __init__(self, folder: Path, workers: int) -> None:
        super().__init__(folder, workers)
        self.kills = 0
        self._workers = workers
        self._rounds = 0

    def play_round(self, *, with_import: bool = False) -> None:
        """Run the service under load, kill it at a random moment, and check the database."""
        first_id = self._rounds * 100_000_000
        self._rounds += 1
        with Service(self.folder, "--workers", f"{self._workers}") as service:
            self.token = self.token or service.token()
            load = Load(service, self.token, first_id)
            load.wait_for_more(self.moments.randrange(1, 400))
            other = Import(self.folder, first_id - IMPORTED_ROWS) if with_import else None
            if other is not None:
                other.commit()
                load.wait_for_more(self.moments.randrange(20))
                if self.moments.random() < 0.5:
                    other.kill()
                    load.wait_for_more(self.moments.randrange(50))
            kill_all(service)
            load.join()
        self.kills += 1
        self.sent |= load.sent
        self.acknowledged |= load.acknowledged
        if other is not None:
            self._end(other)
        stored = self.look(service)
        if other is not None:
            there = len(stored & other.plants.keys())
            assert there in {0, IMPORTED_ROWS}, "a transaction is stored in part"

    def _end(self, other: "Import") -> None:
        status = other.wait()
        assert status in {0, -signal.SIGKILL}, "the import neither succeeded nor was killed"
        self.kills += status != 0
        self.sent |= other.plants
        if status == 0:
            self.acknowledged |= other.plants


class Import:
    """`plantstore import` in another process, with rows that it commits at the end of its input."""

    def __init__(self, folder: Path, first_id: int) -> None:
        ids = range(first_id, first_id + IMPORTED_ROWS)
        self.plants = {id_: NewPlant(id_, f"imported × {id_}", "import") for id_ in ids}
        self._process = subprocess.Popen(
            [*PLANTSTORE, "import", "-", "--format", "jsonl"],
            cwd=folder,
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
        )
        assert self._process.stdin is not None
        for plant in self.plants.values():
            row = {"id": plant.id, "name": plant.name, "tag": plant.tag}
            self._process.stdin.write(json.dumps(row) + "\n")
        self._process.stdin.flush()

    def commit(self) -> None:
        """Close the input, so that the import commits its rows."""
        assert self._process.stdin is not None
        self._process.stdin.close()

    def kill(self) -> None:
        self._process.kill()

    def wait(self) -> int:
        """Wait for the end of the import; return its exit status."""
        return self._process.wait(60)


def kill_all(service: Service) -> None:
    """Kill the server and its workers; the parent first, so that it replaces no worker."""
    for pid in (service.process.pid, *service.children()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
