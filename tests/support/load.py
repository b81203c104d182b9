"""Clients that create or change plants until the server stops."""

import contextlib
import http.client
import json
import random
import threading
from collections.abc import Callable

from plantstore.changes import entity_tag
from plantstore.plants import NewPlant
from support.service import Client, Service

CLIENTS = 8
MERGE_PATCH = {"Content-Type": "application/merge-patch+json"}


class _Clients:
    """Clients that each run in a thread until the server or the test ends."""

    def __init__(self, service: Service, token: str) -> None:
        self.changed = threading.Condition()
        self.is_over = False
        self.threads = [
            threading.Thread(target=self._run, args=(service.client(token), number))
            for number in range(CLIENTS)
        ]
        for thread in self.threads:
            thread.start()

    def _run(self, client: Client, number: int) -> None:
        with (
            contextlib.closing(client),
            contextlib.suppress(OSError, http.client.HTTPException),  # the server has stopped
        ):
            self.run(client, number)

    def run(self, client: Client, number: int) -> None:
        raise NotImplementedError

    def wait_until(self, condition: Callable[[], bool], seconds: float = 60) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout=seconds)

    def stop(self) -> None:
        """Stop sending; return when every request is answered."""
        self.is_over = True
        self.join()

    def join(self) -> None:
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()


class Load(_Clients):
    """Clients that each create one plant after the other until the server or the test ends."""

    def __init__(self, service: Service, token: str, first_id: int) -> None:
        self.sent: dict[int, NewPlant] = {}
        self.acknowledged: dict[int, NewPlant] = {}
        self.refused: list[int] = []
        self._first_id = first_id
        super().__init__(service, token)

    def run(self, client: Client, number: int) -> None:
        id_ = self._first_id + number * 1_000_000
        while not self.is_over:
            id_ += 1
            plant = NewPlant(id_, f"Rosa × {id_}", f"{id_ % 7}" if id_ % 3 else None)
            self.sent[id_] = plant
            answer = client.post(plant)
            with self.changed:
                if answer.status == 200:
                    self.acknowledged[id_] = plant
                else:
                    self.refused.append(answer.status)
                self.changed.notify_all()

    def wait_for_more(self, plants: int = 100, seconds: float = 60) -> None:
        """Return when this many more plants are acknowledged."""
        before = len(self.acknowledged)
        self.wait_until(lambda: len(self.acknowledged) >= before + plants, seconds)


class ChangingLoad(_Clients):
    """Clients that each create, change and delete their own few plants until the server stops.

    `acknowledged` has the plants that are stored by the last responses. `possible` has, for each
    request without a response, the plant that may be stored instead, or None for a deletion.
    """

    def __init__(self, service: Service, token: str, before: dict[int, NewPlant]) -> None:
        self.acknowledged = dict(before)
        self.possible: dict[int, NewPlant | None] = {}
        self.answers = 0
        super().__init__(service, token)

    def run(self, client: Client, number: int) -> None:
        chance = random.Random(f"{number} {self.acknowledged}")
        while not self.is_over:
            id_ = number * 10 + chance.randrange(3)
            wanted = NewPlant(id_, str(chance.random()), chance.choice(["t", None]))
            there = self.acknowledged.get(id_)
            deletes = there is not None and chance.random() < 0.25
            self.possible[id_] = None if deletes else wanted
            if there is None:
                status = client.post(wanted).status
            elif deletes:
                status = client.send("DELETE", f"/plants/{id_}").status
            elif chance.random() < 0.6:
                body = json.dumps({"name": wanted.name, "tag": wanted.tag})
                fields = {"If-Match": entity_tag(there.name, there.tag)} | MERGE_PATCH
                status = client.send("PATCH", f"/plants/{id_}", body, fields).status
            else:
                path = f"/plants/{id_}"
                status = client.send_record("PUT", path, wanted.name, wanted.tag).status
            assert status == (204 if deletes else 200)
            with self.changed:
                outcome = self.possible.pop(id_)
                self.acknowledged.pop(id_, None)
                if outcome is not None:
                    self.acknowledged[id_] = outcome
                self.answers += 1
                self.changed.notify_all()

    def wait_for(self, answers: int) -> None:
        self.wait_until(lambda: self.answers >= answers)
