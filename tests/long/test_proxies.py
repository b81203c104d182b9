"""An import through a proxy that takes longer than the timeouts of the proxy."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.fronts import NAMES, PREFIX, Through, front
from support.service import Service
from support.streams import NDJSON, line

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
