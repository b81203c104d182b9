"""Faults of a cluster.

Before its `yield`, each fault breaks something, and waits until another node leads if one is to be
promoted. At the `yield`, the clients are observed: their changes must be acknowledged again, and
their reads must be current. After the `yield`, the fault repairs what is still broken.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any

from cluster.cluster import Cluster, haproxy
from support.postgres import wait_until

TTL_SECONDS = 20

# How long components are unavailable: a short time, and longer than the TTL.
AWAY_SECONDS = 10
BEYOND_TTL_SECONDS = TTL_SECONDS + 10

# How long the service continues on the primary alone before its disk is lost too.
ALONE_SECONDS = 5


@contextmanager
def switched_over(cluster: Cluster) -> Iterator[None]:
    cluster.switch_over()
    yield


@contextmanager
def postgres_killed(cluster: Cluster) -> Iterator[None]:
    cluster.leader().kill_postgres()
    yield


@contextmanager
def primary_killed(cluster: Cluster) -> Iterator[None]:
    old = cluster.leader()
    old.kill()
    cluster.wait_for_leader(other_than=old)
    yield
    old.revive()


@contextmanager
def patroni_killed(cluster: Cluster) -> Iterator[None]:
    """Kill only Patroni, so the old primary is not informed of the promotion."""
    old = cluster.leader()
    old.patroni.kill()
    cluster.wait_for_leader(other_than=old)
    yield
    old.kill()


@contextmanager
def primary_frozen(cluster: Cluster) -> Iterator[None]:
    old = cluster.leader()
    began = time.monotonic()
    old.freeze()
    cluster.wait_for_leader(other_than=old)
    yield
    time.sleep(max(0, began + BEYOND_TTL_SECONDS - time.monotonic()))
    old.thaw()


@contextmanager
def standbys_killed(cluster: Cluster) -> Iterator[None]:
    standbys = cluster.standbys()
    for node in standbys:
        node.kill()
    time.sleep(AWAY_SECONDS)
    for node in standbys:
        node.revive()
    yield


@contextmanager
def etcd_away(cluster: Cluster) -> Iterator[None]:
    cluster.etcd.kill()
    time.sleep(BEYOND_TTL_SECONDS)
    cluster.etcd.start()
    cluster.leader()
    yield


@contextmanager
def disk_lost(cluster: Cluster) -> Iterator[None]:
    """Kill both standbys, and delete the data of the primary some seconds later.

    The heir is the standby that is killed last. It has all acknowledged commits.
    """
    old = cluster.leader()
    other, heir = cluster.standbys()
    for node in (other, heir):
        node.kill()
    wait_until(lambda: cluster.execute("SHOW synchronous_standby_names") == [("",)])
    time.sleep(ALONE_SECONDS)
    old.lose_disk()
    for node in (heir, other):
        node.revive()
    # Patroni does not promote a standby that may lack commits; an operator has to do it.
    failover = {"candidate": heir.name}
    wait_until(
        lambda: heir.is_leader() or _is_done(heir.ask("POST", "/failover", failover, seconds=60))
    )
    cluster.wait_for_leader(other_than=old)
    yield
    old.revive()


def _is_done(answer: Any) -> bool:
    time.sleep(0.5)
    return answer is not None and answer[0] == 200


@dataclass(frozen=True)
class Fault:
    """A fault, with its name and the configuration of its rounds.

    `leader_first` says which host is first in the URL: the leader, or the standby that is promoted.
    If it is None, it differs between the rounds.
    """

    name: str
    happen: Callable[[Cluster], AbstractContextManager[None]]
    leader_first: bool | None = None
    proxy: Callable[[Cluster], AbstractContextManager[str]] | None = None
    settings: dict[str, Any] = field(default_factory=dict)
    standbys_min: int = 1
    rounds: int = 3


FIRST_FAULTS = [
    Fault("switchover", switched_over, rounds=4),
    Fault("`kill -9` of the primary's PostgreSQL", postgres_killed, rounds=4),
    Fault("`kill -9` of the primary with its Patroni", primary_killed, rounds=4),
    Fault(
        "`kill -9` of the primary's Patroni alone, the new primary first in the URL",
        patroni_killed,
        leader_first=False,
        rounds=4,
    ),
]
FAULTS = [
    *FIRST_FAULTS,
    Fault(
        "the same, the old primary first in the URL", patroni_killed, leader_first=True, rounds=4
    ),
    Fault("HAProxy: `kill -9` of the primary's Patroni alone", patroni_killed, proxy=haproxy),
    Fault(f"`kill -9` of both standbys, for {AWAY_SECONDS} s", standbys_killed),
    Fault(
        f"primary frozen for {BEYOND_TTL_SECONDS} s", primary_frozen, leader_first=True, rounds=4
    ),
    Fault(f"etcd away for {BEYOND_TTL_SECONDS} s", etcd_away),
]
DISK_LOST = "both standbys die, then the disk of the primary is lost"
NOT_STRICT = {"synchronous_mode_strict": False}
EXPERIMENTS = [
    Fault(f"{DISK_LOST}, not strict", disk_lost, settings=NOT_STRICT, standbys_min=0, rounds=1),
    Fault("the same, with `--standbys-min 1`", disk_lost, settings=NOT_STRICT),
]
