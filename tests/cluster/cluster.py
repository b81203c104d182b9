"""A cluster of three nodes with Patroni and etcd, on loopback, as docs/postgresql.md has it."""

import contextlib
import json
import random
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from typing import Any

from psycopg import OperationalError

from cluster.nodes import ARCHIVE, POSTGRES_PORT, REST_PORT, Node, Process
from cluster.page import block, on_loopback, url_of_page
from support.fronts import program
from support.postgres import Programs, execute, programs, wait_until

NAMES = ("one", "two", "three")

# How long a cluster may take to start, or to become complete again.
WHOLE_SECONDS = 180


def free_port() -> int:
    """Return a free port outside the range of outgoing connections.

    While a node is down, its port must stay free.
    """
    while True:
        port = random.randrange(20_000, 30_000)
        with contextlib.suppress(OSError), socket.create_server(("127.0.0.1", port)):
            return port


class Cluster:
    """Three nodes, and the etcd in which they elect the leader."""

    def __init__(self, programs: Programs, etcd: Process, nodes: list[Node], url: str) -> None:
        self.folder = programs.folder
        self.etcd = etcd
        self.nodes = nodes
        self._url = url

    def leader(self) -> Node:
        """Wait for a leader, and return the node whose Patroni reports that it leads."""
        return _first_leader(self.nodes)

    def standbys(self) -> list[Node]:
        leader = self.leader()
        return [node for node in self.nodes if node is not leader]

    def wait_for_leader(self, *, other_than: Node) -> Node:
        """Wait until another node leads and accepts writes, and return it."""
        leader = _first_leader([node for node in self.nodes if node is not other_than])
        # Patroni already reports a leader while its promotion is in progress.
        is_standby = "SELECT pg_is_in_recovery()"
        wait_until(lambda: execute(self.url_of(leader.port), is_standby) == [(False,)])
        return leader

    def url(self, *, first: Node) -> str:
        """Return the URL of the page, with the given node as the first host."""
        nodes = [first, *(node for node in self.nodes if node is not first)]
        return self.url_of(*(node.port for node in nodes))

    def url_of(self, *ports: int) -> str:
        hosts = ",".join(f"127.0.0.1:{port}" for port in ports)
        return re.sub(r"@.*?/", f"@{hosts}/", self._url)

    def execute(self, statement: str) -> list[Any]:
        """Run a statement on the primary, in the database of the service, and return its rows."""
        return execute(self.url_of(self.leader().port), statement)

    def configure(self, **settings: Any) -> None:
        """Change the configuration that Patroni keeps in etcd."""
        status, said = self.leader().ask("PATCH", "/config", settings)
        assert status == 200, said

    def switch_over(self) -> None:
        """Switch over to a standby, as an operator does."""
        leader = self.leader()
        status, said = leader.ask("POST", "/switchover", {"leader": leader.name}, seconds=60)
        assert status == 200, said

    def wait_until_whole(self) -> None:
        """Wait until all nodes are in the cluster, and commits wait for a standby."""
        for node in self.nodes:
            node.revive()
        wait_until(self._is_whole, WHOLE_SECONDS)

    def _is_whole(self) -> bool:
        time.sleep(0.1)
        answer = next(filter(None, (node.ask("GET", "/cluster") for node in self.nodes)), None)
        members = json.loads(answer[1]).get("members", []) if answer else []
        states = {member["state"] for member in members if member["role"] != "leader"}
        roles = {member["role"] for member in members}
        return (
            len(members) == len(self.nodes)
            and states == {"streaming"}
            and roles == {"leader", "quorum_standby"}
            and len({member["timeline"] for member in members}) == 1
        )


def _first_leader(nodes: list[Node]) -> Node:
    found: list[Node] = []

    def is_found() -> bool:
        found.extend(node for node in nodes if node.is_leader())
        return bool(found)

    wait_until(is_found)
    return found[0]


@contextlib.contextmanager
def running_cluster() -> Iterator[Cluster]:
    """Run a cluster until the block ends."""
    addresses = [f"{name}:{port}" for name in NAMES for port in (POSTGRES_PORT, REST_PORT)]
    with programs() as found, contextlib.ExitStack() as stack:
        subprocess.run(["mkdir", ARCHIVE], check=True, **found.as_user)
        ports = {address: free_port() for address in addresses}
        etcd_port = free_port()
        ports |= dict.fromkeys((f"etcd-{name}:2379" for name in NAMES), etcd_port)
        etcd = stack.enter_context(_etcd(found, etcd_port))
        nodes = [Node(found, name, ports) for name in NAMES]
        # The first node creates the cluster, and the others copy it.
        for node in nodes:
            stack.enter_context(node)
            wait_until(lambda: any(node.is_leader() for node in nodes), WHOLE_SECONDS)
        cluster = Cluster(found, etcd, nodes, on_loopback(url_of_page(), ports))
        cluster.wait_until_whole()
        _make_database(cluster)
        yield cluster


def _etcd(programs: Programs, port: int) -> Process:
    client, peer = f"http://127.0.0.1:{port}", f"http://127.0.0.1:{free_port()}"
    return Process(
        programs.folder,
        "etcd",
        *(program("etcd"), "--name", "etcd", "--data-dir", str(programs.folder / "etcd")),
        *("--listen-client-urls", client, "--advertise-client-urls", client),
        *("--listen-peer-urls", peer, "--initial-advertise-peer-urls", peer),
        *("--initial-cluster", f"etcd={peer}"),
    )


def _make_database(cluster: Cluster) -> None:
    """Create the role and the database of the page."""
    user = re.search(r"superuser: {username: (\S+), password: (\S+)}", block("patroni.yml"))
    assert user is not None
    url = f"postgresql://{user[1]}:{user[2]}@127.0.0.1:{cluster.leader().port}/postgres"
    for statement in re.sub(r"^--.*$", "", block("garden.sql"), flags=re.MULTILINE).split(";"):
        if statement.strip():
            execute(url, statement)


@contextlib.contextmanager
def haproxy(cluster: Cluster) -> Iterator[str]:
    """Run HAProxy as the page has it, with Patroni's health checks; yield the URL through it."""
    port = free_port()
    text = block("haproxy.cfg").replace("127.0.0.1:5000", f"127.0.0.1:{port}")
    for node in cluster.nodes:
        text = text.replace(
            f"{node.name}:{POSTGRES_PORT} check port {REST_PORT}",
            f"127.0.0.1:{node.port} check port {node.rest_port}",
        )
    path = cluster.folder / "haproxy.cfg"
    path.write_text(text, encoding="utf-8")
    with Process(cluster.folder, "haproxy", program("haproxy"), "-db", "-f", str(path)):
        url = cluster.url_of(port)
        wait_until(lambda: _leads_to_primary(url))
        yield url


def _leads_to_primary(url: str) -> bool:
    """Return whether all connections reach the primary.

    HAProxy uses the servers in turn, and considers each healthy until its first check.
    """
    is_standby = "SELECT pg_is_in_recovery()"
    try:
        return all(execute(url.partition("?")[0], is_standby) == [(False,)] for _ in NAMES)
    except OperationalError:
        return False
