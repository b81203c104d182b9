"""Rounds of imports under load that end with kill -9; all rounds use the same database."""

import contextlib
import os
import random
import signal
from collections.abc import Iterator
from pathlib import Path

from plantstore.api.bulk_changes import SHARED_BATCH_ROWS_MAX
from plantstore.plants import NewPlant
from support.load import Load
from support.service import Service, plants_of_feed, stored_plants
from support.streams import MEDIA_TYPES, NONE, Stream, import_once, rendered

# A transaction of an import over HTTP has this number of rows, or a multiple of it.
BATCH_ROWS = SHARED_BATCH_ROWS_MAX

PIECE_BYTES = 10_000


class Crashes:
    """A service that is killed during imports, and the plants that must survive.

    Each round starts the service, sends the file of the round before again, and sends a new file,
    and single plants beside it. Then it kills the service with its workers. A file has `batches`
    transactions, and an incomplete one.

    Attributes:
        sent: the plants that may be stored.
        acknowledged: those that must be stored.
        lost: the ids of acknowledged plants that were missing or changed after a round.
        kept: of each killed import, how many of its rows were stored.

    """

    def __init__(
        self, folder: Path, workers: int = 1, database: str | None = None, batches: int = 20
    ) -> None:
        self.sent: dict[int, NewPlant] = {}
        self.acknowledged: dict[int, NewPlant] = {}
        self.lost: set[int] = set()
        self.kept: list[int] = []
        self.token = ""
        self._folder = folder
        # A service without this option starts faster.
        self._options = ("--workers", f"{workers}") if workers > 1 else ()
        self._database = database
        self._rows = batches * BATCH_ROWS + 250
        self._moments = random.Random(workers + batches)
        self._killed: _File | None = None

    def play_round(self) -> None:
        """Import a file, kill the service at a random moment, and check the database."""
        rounds = len(self.kept)
        file = _File(rounds, self._rows, "csv" if rounds % 2 else "ndjson")
        with self._serving() as service:
            self.token = self.token or service.token()
            self._complete(service)
            load = Load(service, self.token, -(rounds + 1) * 100_000_000)
            pieces = file.pieces(self._moments.randrange(len(file.content) // 3, len(file.content)))
            stream = Stream(service, self.token, pieces, MEDIA_TYPES[file.form])
            load.wait_for_more(self._moments.randrange(1, self._rows // 16))
            if self._moments.random() < 0.3:
                # The service may be killed after the last commit, or after the response.
                stream.finish()
                load.wait_for_more(self._moments.randrange(50))
            kill_all(service)
            stream.finish()
            load.join()
            answer = stream.join()
        self.sent |= load.sent | file.plants
        self.acknowledged |= load.acknowledged
        if answer is not None:
            assert answer.json == NONE | {"stored": self._rows, "errors": []}
            self.acknowledged |= file.plants
        stored = self._look(service)
        ids = list(file.plants)
        there = len(stored & file.plants.keys())
        assert stored.isdisjoint(ids[there:]), "a row is stored, but one before it is not"
        assert there == self._rows or there % BATCH_ROWS == 0, "a transaction is stored in part"
        self.kept.append(there)
        self._killed = file

    def end(self) -> None:
        """Complete the last file."""
        with self._serving() as service:
            self._complete(service)
        self._look(service)

    def _serving(self) -> Service:
        return Service(self._folder, *self._options, database=self._database)

    def _complete(self, service: Service) -> None:
        """Send the file of the killed import again: now all of it must be stored."""
        file = self._killed
        if file is None:
            return
        answer = import_once(service, self.token, file.content, MEDIA_TYPES[file.form])
        there = self.kept[-1]
        counts = {"stored": self._rows - there, "already_stored": there}
        assert (answer.status, answer.json) == (200, NONE | counts | {"errors": []})
        self.acknowledged |= file.plants

    def _look(self, service: Service) -> set[int]:
        """Compare the database with what was sent and acknowledged; return the stored ids."""
        stored = stored_plants(service.database)
        self.lost |= {id_ for id_, plant in self.acknowledged.items() if stored.get(id_) != plant}
        assert stored.items() <= self.sent.items(), "a plant is stored that was not sent"
        assert plants_of_feed(service.database) == stored, "the feed has other changes"
        return set(stored)


class _File:
    """A file of plants with new ids."""

    def __init__(self, number: int, rows: int, form: str) -> None:
        first = number * 1_000_000
        self.form = form
        self.plants = {
            id_: NewPlant(id_, f'"×"\n{"é" * (id_ % 20)}{id_}', f"{id_ % 7}" if id_ % 3 else None)
            for id_ in range(first, first + rows)
        }
        self.content = rendered(form, list(self.plants.values()))

    def pieces(self, end: int) -> Iterator[bytes]:
        """Yield the content in pieces up to an offset, and the rest as the last piece."""
        for start in range(0, end, PIECE_BYTES):
            yield self.content[start : min(start + PIECE_BYTES, end)]
        yield self.content[end:]


def kill_all(service: Service) -> None:
    """Kill the server and its workers; the parent first, so that it replaces no worker."""
    for pid in (service.process.pid, *service.children()):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
