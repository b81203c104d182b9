"""A round: two instances of the service under load, a fault, and its results."""

import contextlib
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from cluster.clients import Clients
from cluster.cluster import Cluster, free_port
from cluster.faults import Fault, Scene
from plantstore.plants import NewPlant
from support.postgres import execute
from support.service import Service, opened

INSTANCES = 2

# How long the load runs before a fault, and how long it is observed after one.
WARM_SECONDS = 2
WATCHED_SECONDS = 5

# How long the instances may take to acknowledge a change again after another node leads, and to
# refuse a revoked token. After this time the round continues, and repairs the fault.
MOVE_SECONDS_MAX = 40
REVOKE_SECONDS_MAX = 15


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
    settings = {"synchronous_mode_strict": number % 2 == 0, "failsafe_mode": True}
    cluster.configure(**(settings | fault.settings))
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
            with fault.happen(Scene(cluster, services)):
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
