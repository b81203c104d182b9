"""Proxies between the service and the nodes, configured as docs/postgresql.md says."""

import contextlib
import re
from collections.abc import Iterator
from typing import Final

from psycopg import OperationalError

from cluster.cluster import NAMES, Cluster, free_port
from cluster.nodes import POSTGRES_PORT, REST_PORT
from cluster.page import block
from cluster.processes import Process
from support.fronts import program
from support.postgres import execute, wait_until

_PGBOUNCER: Final = """\
[databases]
garden = host=127.0.0.1 port={server_port}
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = {port}
pool_mode = session
auth_type = scram-sha-256
auth_file = {users}
ignore_startup_parameters = options
max_client_conn = 200
default_pool_size = 50
server_connect_timeout = 2
server_login_retry = 1
"""


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
        path = cluster.folder / "pgbouncer.ini"
        path.write_text(
            _PGBOUNCER.format(port=port, server_port=role[3], users=users), encoding="utf-8"
        )
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
