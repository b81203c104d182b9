"""Requests that arrive when idle connections between a proxy and the service are about to close."""

import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from support.fronts import NAMES, PREFIX, Running, Through, front
from support.service import Service
from support.streams import NDJSON, line

# The service closes an idle connection after IDLE_SECONDS, the proxy after half of that.
IDLE_SECONDS = 2
IDLE_OPTION = "--idle-seconds"
SHORTENED = {
    "nginx": {"keepalive_timeout 60s": "keepalive_timeout 1s"},
    "haproxy": {"pool-purge-delay 5s": "pool-purge-delay 500ms"},
    "caddy": {"keepalive 60s": "keepalive 1s"},
}

# The timeouts of the proxies: a second instead of a minute. Caddy has none.
TIMEOUTS = {
    "nginx": {
        "proxy_buffering off;": "proxy_buffering off; client_body_timeout 1s;"
        " proxy_send_timeout 1s; proxy_read_timeout 1s;"
    },
    "haproxy": {
        "timeout client 60s": "timeout client 1s",
        "timeout server 60s": "timeout server 1s",
    },
    "caddy": {},
}

CLIENTS = 16
REQUESTS = 10


def send_at_the_edge(running: Running, token: str, client_number: int) -> Counter[int]:
    """Send requests with pauses close to both timeouts; return the count of each status."""
    statuses: Counter[int] = Counter()
    with Through(running, token) as client:
        for number in range(REQUESTS):
            statuses[client.send("GET", f"{PREFIX}/plants").status] += 1
            edge = IDLE_SECONDS if number % 2 else IDLE_SECONDS / 2
            time.sleep(edge + 0.01 * (client_number - CLIENTS // 2))
    return statuses


@pytest.mark.parametrize("name", NAMES)
def test_no_request_behind_a_proxy_is_lost_on_an_idle_connection_that_closes(
    name: str, tmp_path: Path
) -> None:
    with (
        Service(tmp_path, IDLE_OPTION, str(IDLE_SECONDS)) as service,
        front(name, tmp_path / name, service.port, SHORTENED[name]) as running,
        ThreadPoolExecutor(CLIENTS) as clients,
    ):
        token = service.token()
        sent = [clients.submit(send_at_the_edge, running, token, n) for n in range(CLIENTS)]
        statuses = sum((each.result() for each in sent), Counter())

    assert statuses == {200: CLIENTS * REQUESTS}


@pytest.mark.parametrize("name", NAMES)
def test_an_import_through_a_proxy_may_take_longer_than_the_timeouts_of_the_proxy(
    name: str, tmp_path: Path
) -> None:

    def rows() -> Iterator[bytes]:
        for id_ in range(40):
            yield line(id_)
            time.sleep(0.1)

    with (
        Service(tmp_path) as service,
        front(name, tmp_path / name, service.port, TIMEOUTS[name]) as running,
        Through(running, service.token()) as client,
    ):
        answer = client.send("POST", f"{PREFIX}/plants.ndjson", rows(), {"Content-Type": NDJSON})

    assert (answer.status, answer.json["stored"]) == (200, 40)
