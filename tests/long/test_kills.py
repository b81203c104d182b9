"""Hundreds of kills at random moments."""

import contextlib
import http.client
import os
import random
import signal
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from plantstore.changes import Deletion, InSet, SingleChange, Upsert
from plantstore.plants import NewPlant
from support.crashes import Crashes, kill_all
from support.postgres import Programs, Server, wait_until
from support.service import Service, opened, plants_of_feed, stored_plants


@pytest.fixture
def database(request: pytest.FixtureRequest) -> str | None:
    """Return the URL of an empty database, or None for SQLite in the folder of the test."""
    return str(request.getfixturevalue("url")) if request.param == "postgres" else None


def of(workers: int, database: str | None) -> str:
    """Return the end of the name of a row."""
    engine = " on PostgreSQL" if database else ""
    return f"with {workers} worker{'s' if workers > 1 else ''}{engine}"


@pytest.mark.parametrize(
    ("database", "workers", "rounds"),
    [("sqlite", 1, 100), ("sqlite", 3, 30), ("postgres", 2, 20)],
    indirect=["database"],
)
def test_every_acknowledged_plant_survives_every_kill(
    tmp_path: Path, soak: Any, database: str | None, workers: int, rounds: int
) -> None:
    crashes = Crashes(tmp_path, workers, database)

    for _ in range(rounds):
        crashes.play_round()
    crashes.end()

    soak.add(
        f"kill -9 during imports under load, {of(workers, database)}",
        faults=rounds,
        acknowledged=len(crashes.acknowledged),
        lost=len(crashes.lost),
    )
    assert crashes.lost == set()
    assert len(set(crashes.kept)) > 5, "the kills were not at different moments"


# The end of names. A transaction of an undo has so many of them that an undo takes several.
_LONG = "×" * 100


class UndoCrashes:
    """A service that is killed during undos, each of which is sent again.

    Each round changes plants in a set, and some of them without it. Then it undoes the set, kills
    the service at a random moment after some transactions, and undoes the set again.

    Attributes:
        wrong: what was not as it should be.
        kept: of each killed undo, how many of its plants it had undone.

    """

    def __init__(
        self, folder: Path, workers: int = 1, database: str | None = None, plants: int = 3_000
    ) -> None:
        self.wrong: list[str] = []
        self.kept: list[int] = []
        self._token = ""
        self._folder = folder
        # A service without this option starts faster.
        self._options = ("--workers", f"{workers}") if workers > 1 else ()
        self._database = database
        self._count = plants
        self._chance = random.Random(workers + plants)

    def play_round(self) -> None:
        chance, name = self._chance, f"killed-{len(self.kept):012}"
        undo_set = f"{name}-undo"
        with self._serving() as service:
            self._token = self._token or service.token()
            before, after, expected = self._change(service, name)
            undoing = threading.Thread(target=self._undo, args=(service, name, undo_set))
            with opened(service.database) as store:
                commits, seen = chance.randrange(1, 7), {store.read_changes(None, 1).end}
                undoing.start()
                while len(seen) <= commits and undoing.is_alive():
                    seen.add(store.read_changes(None, 1).end)
            time.sleep(chance.random() * self._count / 300_000)
            kill_all(service)
            undoing.join()
        stored = stored_plants(service.database)
        touched = [id_ for id_ in expected | after if expected.get(id_) != after.get(id_)]
        undone = [stored.get(id_) == expected.get(id_) for id_ in sorted(touched)]
        if undone != sorted(undone, reverse=True):
            self.wrong.append(f"{name}: the plants that are undone are not the first ones")
        if any(stored.get(id_) not in (after.get(id_), expected.get(id_)) for id_ in touched):
            self.wrong.append(f"{name}: a plant is neither what it was nor what it is to be")
        with self._serving() as service:
            answer = self._undo(service, name, undo_set)
            if answer is None or answer["kept"] != len(expected) - len(before):
                self.wrong.append(f"{name}: {answer}")
            self._look(service, f"{name}, undone", expected)
            with service.client(self._token) as client:  # the undo of both parts of the undo
                client.send("POST", f"/undo?set={undo_set}")
            self._look(service, f"{name}, undone and undone", after)
        self.kept.append(sum(undone))

    def _change(
        self, service: Service, name: str
    ) -> tuple[dict[int, NewPlant], dict[int, NewPlant], dict[int, NewPlant]]:
        """Return the plants before the set, after it, and after its undo."""
        before = {id_: NewPlant(id_, f"a {id_}{_LONG}", "t") for id_ in range(self._count // 2)}
        after = {
            id_: NewPlant(id_, f"b {id_}{_LONG}") for id_ in range(self._count // 4, self._count)
        }
        others = [NewPlant(id_, "other") for id_ in range(self._count - 50, self._count)]
        with opened(service.database) as store:
            old = [plant.id for page in store.scan_plants() for plant in page]
            store.apply_changes([Deletion(id_) for id_ in old])
            store.apply_changes([*before.values()])
            changes: list[SingleChange] = [*map(Deletion, range(self._count // 4))]
            changes += map(Upsert, after.values())
            store.apply_changes([InSet(change, name) for change in changes])
            store.apply_changes([Upsert(plant) for plant in others])
        kept = {plant.id: plant for plant in others}
        return before, after | kept, before | kept

    def _undo(self, service: Service, name: str, in_set: str) -> dict[str, int] | None:
        with (
            contextlib.suppress(OSError, http.client.HTTPException),
            service.client(self._token) as client,
        ):
            answer = client.send("POST", f"/undo?set={name}", headers={"Change-Set": in_set})
            found: dict[str, int] = answer.json
            return found if answer.status == 200 else None
        return None

    def _look(self, service: Service, when: str, expected: dict[int, NewPlant]) -> None:
        with opened(service.database) as store:
            stored = {plant.id: plant for page in store.scan_plants() for plant in page}
        if stored != expected:
            self.wrong.append(f"{when}: the plants are not those that it should have")
        if plants_of_feed(service.database) != stored:
            self.wrong.append(f"{when}: the feed has other changes")

    def _serving(self) -> Service:
        return Service(self._folder, *self._options, database=self._database)


@pytest.mark.parametrize(
    ("database", "workers", "rounds"),
    [("sqlite", 1, 50), ("sqlite", 3, 20), ("postgres", 2, 30)],
    indirect=["database"],
)
def test_an_undo_that_is_killed_is_completed_by_sending_it_again(
    tmp_path: Path, soak: Any, database: str | None, workers: int, rounds: int
) -> None:
    crashes = UndoCrashes(tmp_path, workers, database)

    for _ in range(rounds):
        crashes.play_round()

    soak.add(
        f"kill -9 during undos, {of(workers, database)}",
        faults=rounds,
        acknowledged=rounds,
        lost=len(crashes.wrong),
    )
    assert crashes.wrong == []
    assert len(set(crashes.kept)) > 3, "the kills were not at different moments"


def test_a_worker_that_died_while_postgresql_was_down_is_replaced(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with (
        Server(postgres_programs, "away") as server,
        Service(tmp_path, "--workers", "2", database=server.url()) as service,
    ):
        token = service.token()
        with service.client(token) as client:
            assert client.post(NewPlant(1, "a")).status == 200
            server.stop()
            messages = [client.post(NewPlant(2, "b")).json["message"] for _ in range(5)]
        assert messages[-1] == "The database cannot be reached; nothing was done"
        service.wait_for_log("commit failed")

        before = len(service.log)
        for pid in service.children():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: any("cannot be reached" in line for line in service.log[before:]))
        server.start()

        with service.client(token) as client:
            assert client.post(NewPlant(2, "b")).status == 200
