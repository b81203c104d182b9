"""Proxies between the service and the nodes, as docs/cluster.md configures them."""

import contextlib
import re
from collections.abc import Iterator

from psycopg import OperationalError

from cluster.cluster import NAMES, Cluster, free_port
from cluster.nodes import POSTGRES_PORT, REST_PORT
from cluster.page import block
from cluster.processes import Process
from support.fronts import program
from support.postgres import execute, wait_until


@contextlib.contextmanager
def haproxy(cluster: Cluster) -> Iterator[str]:
    """Run HAProxy with Patroni's health checks; yield the URL through it."""
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


@contextlib.contextmanager
def pgbouncer(cluster: Cluster) -> Iterator[str]:
    """Run PgBouncer in front of HAProxy; yield the URL through both."""
    with haproxy(cluster) as behind:
        port = free_port()
        role = re.search(r"//(\w+):([^@]+)@127\.0\.0\.1:(\d+)/", behind)
        assert role is not None
        users = cluster.folder / "userlist.txt"
        users.write_text(f'"{role[1]}" "{role[2]}"\n', encoding="utf-8")
        text = block("pgbouncer.ini")
        text = re.sub(r"port=\d+", f"port={role[3]}", text)
        text = re.sub(r"listen_port = \d+", f"listen_port = {port}", text)
        text = re.sub(r"auth_file = .*", f"auth_file = {users}", text)
        path = cluster.folder / "pgbouncer.ini"
        path.write_text(text, encoding="utf-8")
        with Process(cluster.folder, "pgbouncer", program("pgbouncer"), str(path)):
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
