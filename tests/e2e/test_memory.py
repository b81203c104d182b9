"""Bounds on the memory that clients make the service use. tests/long measures each connection."""

import contextlib
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.api.static_files import load_web
from plantstore.plants import NewPlant
from support.certificates import Pair, make_pair
from support.service import Service
from support.wire import Wire, head

pytestmark = pytest.mark.serve("--request-seconds", "3600", "--stop-seconds", "1")

# What the documentation allows besides the requests and responses: buffers of the kind that the
# system's allocator keeps, and a connection.
OTHER_MIB = 60
CONNECTION_MIB = {False: 0.01, True: 0.08}  # with TLS

# A page of plants with the largest names as JSON has half a mebibyte.
TARGETS = {
    "pages": "/plants?limit=1000",
    "files": f"/assets/{load_web().assets.digest}/swagger-ui-bundle.js",
}


@pytest.fixture(params=["http", "https"])
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> Pair | None:
    """Return the certificate of a service under attack, if it has one."""
    return make_pair(tmp_path) if request.param == "https" else None


@pytest.fixture
def context(pair: Pair | None) -> ssl.SSLContext | None:
    """Return what the clients of the service trust."""
    return pair and pair.trusted()


@pytest.fixture
def attacked(tmp_path: Path, pair: Pair | None) -> Iterator[Service]:
    """Return a service for attacks."""
    options = ["--public-read", "--request-seconds", "3600", "--stop-seconds", "1"]
    with Service(tmp_path, *options, *(pair.options() if pair else ())) as running:
        yield running


def test_unfinished_bodies_are_bounded_in_total_and_small_requests_are_served(
    context: ssl.SSLContext | None, attacked: Service
) -> None:
    """Without a bound, the bodies take 100 MiB more."""
    token, connections = attacked.token(), 2_500
    create(attacked, context, token, 2)
    before = attacked.resident_mib()
    unfinished = head(token, b"Content-Length: 16384") + b" " * 16_383

    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            with contextlib.suppress(OSError):
                stack.enter_context(Wire(attacked.port, context)).send(unfinished)

        create(attacked, context, token, 3)
        others = OTHER_MIB + connections * CONNECTION_MIB[context is not None]
        assert attacked.resident_mib() < before + 2 * 2 * 32 + others
        attacked.wait_for_log("overloaded")


@pytest.mark.parametrize("target", TARGETS.values(), ids=TARGETS)
def test_unread_responses_are_bounded_in_total_without_a_token(
    context: ssl.SSLContext | None, attacked: Service, target: str
) -> None:
    """Without a bound, the responses take 150 MiB, and the files 500."""
    connections = 150
    attacked.change(*[NewPlant(id_, f"{id_}" + "\x01" * 2_600) for id_ in range(400)])
    token = attacked.token()
    create(attacked, context, token, 1_001)
    before = attacked.resident_mib()

    with contextlib.ExitStack() as stack:
        for _ in range(connections):
            wire = stack.enter_context(Wire(attacked.port, context))
            wire.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 20)
            if target == TARGETS["pages"]:
                wire.socket.recv(1)
        create(attacked, context, token, 1_002)

        assert (
            attacked.resident_mib()
            < before + 64 + 32 + connections * CONNECTION_MIB[context is not None]
        )


def create(service: Service, context: ssl.SSLContext | None, token: str, id_: int) -> None:
    """Create a small plant, on a new connection."""
    body = b'{"id":%d,"name":"a"}' % id_
    with Wire(service.port, context) as wire:
        wire.send(head(token, b"Content-Length: %d" % len(body)) + body)
        assert wire.answer()[0] == 200
