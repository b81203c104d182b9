"""Clients that change and read plants on the instances of a service."""

import http.client
import itertools
import random
import threading
import time
from typing import Self

from cluster.ledger import CREATED, DELETED, Event, Ledger, plant, version_of, versions
from plantstore.plants import NewPlant
from support.service import Answer, Client

# Numbers of clients for each instance.
WRITERS = 8
READERS = 2

# The pause of a client before it retries a failed request, and between two requests, so that the
# clients do not use all of the CPU time.
RETRY_SECONDS = 0.05
PACE_SECONDS = 0.005

IDS_PER_CLIENT = 10_000_000


class Clients:
    """Clients of several instances, each on a fixed port, that run until the block ends."""

    def __init__(self, ports: list[int], token: str) -> None:
        self.ledger = Ledger()
        self.instances = range(len(ports))
        self._is_over = threading.Event()
        self._threads = [
            threading.Thread(target=run, args=(instance, Client(port, token), number))
            for instance, port in enumerate(ports)
            for run, count in ((self._write, WRITERS), (self._read, READERS))
            for number in range(count)
        ]

    def __enter__(self) -> Self:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        """Stop sending, and wait for the remaining responses."""
        self._is_over.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()

    def wait_for_changes(self, seconds: float = 60) -> bool:
        """Wait until each instance acknowledges a change that began after this call."""
        return self.ledger.wait_for_each(self.instances, time.monotonic(), seconds)

    def _write(self, instance: int, client: Client, number: int) -> None:
        for id_ in itertools.count((instance * WRITERS + number) * IDS_PER_CLIENT + 1):
            for version in versions(id_):
                if self._is_over.wait(PACE_SECONDS):
                    client.close()
                    return
                self._change(instance, client, id_, version)

    def _change(self, instance: int, client: Client, id_: int, version: int) -> None:
        """Send a change repeatedly until it is acknowledged, or the load is over."""
        self.ledger.sent[id_] = version
        good = {200} if version != DELETED else {204}
        while True:
            began = time.monotonic()
            answer = self._send(client, id_, version)
            status = answer.status if answer else 0
            if status in good:
                event = Event(instance, began, time.monotonic())
                self.ledger.acknowledge(event, id_, version)
                return
            if status not in {0, 503}:
                self.ledger.unexpected[f"{status} to version {version}"] += 1
                return
            if version == DELETED:
                good = {204, 404}  # an attempt that failed may have deleted it
            if self._is_over.wait(RETRY_SECONDS):
                return

    def _send(self, client: Client, id_: int, version: int) -> Answer | None:
        wanted = plant(id_, version)
        try:
            if version == CREATED:
                return client.post(wanted)
            if version == DELETED:
                return client.send("DELETE", f"/plants/{id_}")
            return client.send_record("PUT", f"/plants/{id_}", wanted.name, wanted.tag)
        except (OSError, http.client.HTTPException):
            client.close()  # the next request opens it again
            return None

    def _read(self, instance: int, client: Client, number: int) -> None:
        """Read plants that were acknowledged recently, by any instance."""
        chance = random.Random(number)
        ledger = self.ledger
        while not self._is_over.wait(PACE_SECONDS):
            if not ledger.recent:
                continue
            id_ = chance.choice(ledger.recent)
            least, began = ledger.acknowledged[id_], time.monotonic()
            try:
                answer = client.send("GET", f"/plants/{id_}")
            except (OSError, http.client.HTTPException):
                client.close()
                continue
            if answer.status in {200, 404}:
                found = NewPlant(**answer.json) if answer.status == 200 else None
                if ledger.is_stale(id_, least, version_of(found)):
                    ledger.stale.append(Event(instance, began, time.monotonic()))
            elif answer.status == 503:
                self._is_over.wait(RETRY_SECONDS)
            else:
                ledger.unexpected[f"{answer.status} to a read"] += 1
        client.close()
