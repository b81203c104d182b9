"""A round: two instances of the service, clients that change and read plants, and a fault."""

import contextlib
import http.client
import itertools
import random
import threading
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from cluster.cluster import Cluster, free_port
from cluster.faults import Fault
from cluster.ledger import CREATED, DELETED, Event, Ledger, plant, version_of, versions
from plantstore.plants import NewPlant
from support.postgres import execute
from support.service import Answer, Client, Service, opened

INSTANCES = 2

# How long the load runs before a fault, and how long it is observed after one.
WARM_SECONDS = 2
WATCHED_SECONDS = 5

# How long the instances may take to acknowledge a change again after another node leads, and to
# refuse a revoked token. After this time the round continues, and repairs the fault.
MOVE_SECONDS_MAX = 40
REVOKE_SECONDS_MAX = 15

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


@dataclass(frozen=True)
class Result:
    """The results of a round.

    `token_seconds` is at most `REVOKE_SECONDS_MAX`: the token is not tested for longer.
    `unexpected` counts responses other than 200, 204 and 503, and plants that no client sent.
    """

    acknowledged: int
    lost: int
    stale: int
    stale_after_move: int
    seconds_without_change: float
    token_seconds: float
    unexpected: Counter[str]


def play(cluster: Cluster, fault: Fault, number: int, folder: Path) -> Result:
    """Run a round of a fault; the configuration differs between the rounds."""
    cluster.wait_until_whole()
    cluster.configure(**({"synchronous_mode_strict": number % 2 == 0} | fault.settings))
    with contextlib.ExitStack() as stack:
        url = _url(cluster, fault, number, stack)
        options = ("--standbys-min", f"{fault.standbys_min}")
        services = [
            stack.enter_context(Service(folder, "--port", f"{free_port()}", *options, database=url))
            for _ in range(INSTANCES)
        ]
        cluster.execute("TRUNCATE plants")
        names = f"{time.time_ns()}"
        token, doomed = (services[0].token(name=f"{use} {names}") for use in ("load", "doomed"))
        with Clients([service.port for service in services], token) as clients:
            time.sleep(WARM_SECONDS)
            assert clients.wait_for_changes(), "there is no load before the fault"
            began = time.monotonic()
            with fault.happen(cluster):
                moved_at = time.monotonic()
                clients.wait_for_changes(MOVE_SECONDS_MAX)
                time.sleep(WATCHED_SECONDS)
                token_seconds = _revoke(cluster, services, doomed, f"doomed {names}")
            cluster.wait_until_whole()
            clients.wait_for_changes()
            time.sleep(WARM_SECONDS)
            ended = time.monotonic()
        ledger = clients.ledger
        stored = _stored(cluster)
        return Result(
            acknowledged=len(ledger.changes),
            lost=len(ledger.lost(stored)),
            stale=len(ledger.stale),
            stale_after_move=ledger.stale_after_move(moved_at),
            seconds_without_change=max(
                ledger.seconds_without_change(instance, began, ended)
                for instance in clients.instances
            ),
            token_seconds=token_seconds,
            unexpected=+(ledger.unexpected + Counter({"invented": len(ledger.invented(stored))})),
        )


def _url(cluster: Cluster, fault: Fault, number: int, stack: contextlib.ExitStack) -> str:
    if fault.proxy is not None:
        return stack.enter_context(fault.proxy(cluster))
    is_first = number % 4 < 2 if fault.leader_first is None else fault.leader_first
    return cluster.url(first=cluster.leader() if is_first else cluster.standbys()[0])


def _revoke(cluster: Cluster, services: list[Service], token: str, name: str) -> float:
    """Revoke a token on the primary; return for how many seconds any instance accepts it."""
    clients = [service.client(token) for service in services]
    for client in clients:
        client.send("GET", "/plants/1")
    with opened(cluster.url_of(cluster.leader().port)) as store:
        store.revoke_token(name, int(time.time()))
    began, seconds = time.monotonic(), 0.0
    left = set(clients)
    while left and time.monotonic() < began + REVOKE_SECONDS_MAX:
        time.sleep(0.05)
        for client in tuple(left):
            status = client.send("GET", "/plants/1").status
            if status == 401:
                left.remove(client)
            elif status != 503:
                seconds = time.monotonic() - began
    for client in clients:
        client.close()
    return seconds


def _stored(cluster: Cluster) -> dict[int, NewPlant]:
    """Return the plants of the primary; call this after the clients have stopped."""
    url = cluster.url_of(cluster.leader().port)
    return {row[0]: NewPlant(*row) for row in execute(url, "SELECT id, name, tag FROM plants")}
