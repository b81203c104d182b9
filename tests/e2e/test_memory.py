"""Bounds on the memory that clients can make the server use: resets, heads, pipelining, bodies."""

import contextlib
import re
import resource
import socket
import struct
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from plantstore.server.interface import INCOMING_BYTES_MAX
from support.postgres import wait_until
from support.service import Service
from support.wire import Wire, head

MIB = 1024 * 1024
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
LARGE_HEALTH = (
    HEALTH[:-2] + b"".join(b"X-%d: %b\r\n" % (n, b"y" * 350) for n in range(90)) + b"\r\n"
)

# Without a bound, each of these tests makes the server use 100 MiB or more.
GROWTH_MIB_MAX = 60


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path, "--request-seconds", "3600", "--stop-seconds", "1") as running:
        yield running


@pytest.fixture
def stack() -> Iterator[contextlib.ExitStack]:
    with contextlib.ExitStack() as stack:
        yield stack


def resident_mib(service: Service) -> float:
    status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="ascii")
    [kib] = re.findall(r"VmRSS:\s*(\d+) kB", status)
    return int(kib) / 1024


def connect(service: Service, stack: contextlib.ExitStack) -> socket.socket:
    opened = socket.create_connection(("127.0.0.1", service.port), timeout=30)
    return stack.enter_context(opened)


def assert_healthy(service: Service) -> None:
    client = service.client(None)
    assert client.send("GET", "/healthz").status == 200
    client.close()


def test_reset_connections_leak_no_memory(service: Service) -> None:
    """The long suite resets fifty times as many."""
    assert_healthy(service)
    before = resident_mib(service)

    for _ in range(2_000):
        wire = Wire(service.port)
        wire.send(LARGE_HEALTH)
        assert wire.answer()[0] == 200
        wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        wire.close()

    assert_healthy(service)
    assert resident_mib(service) < before + 20


@pytest.mark.parametrize(
    "begun",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n" + b"ab:cd\r\n" * 4_600,
        head(None, b"Transfer-Encoding: chunked") + b"0\r\n" + b"ab:cd\r\n" * 4_600,
    ],
    ids=["fields", "trailers"],
)
def test_two_thousand_unfinished_heads_take_little_memory(
    service: Service, stack: contextlib.ExitStack, begun: bytes
) -> None:
    for _ in range(2_000):
        with contextlib.suppress(OSError):
            connect(service, stack).sendall(begun)

    assert_healthy(service)
    assert resident_mib(service) < 200


@pytest.mark.parametrize("begin", [b"", b"large answer"])
def test_pipelined_requests_take_little_memory(
    service: Service, stack: contextlib.ExitStack, begin: bytes
) -> None:
    service.change(*(NewPlant(id_, "x" * 1000) for id_ in range(1000)))
    authorization = b"Authorization: Bearer %b\r\n\r\n" % service.token().encode()
    large = HEALTH.replace(b"/healthz", b"/plants?limit=1000")[:-2] + authorization
    connections = []
    for _ in range(100):
        connection = stack.enter_context(socket.socket())
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        connection.connect(("127.0.0.1", service.port))
        connections.append(connection)
    assert_healthy(service)
    before = resident_mib(service)

    for connection in connections:
        connection.sendall((large if begin else HEALTH) + HEALTH * 2_000)

    assert_healthy(service)
    # The 100 responses of 1 MiB, if any, are in the server and in the kernel.
    assert resident_mib(service) < before + GROWTH_MIB_MAX + (100 if begin else 0)


def test_unfinished_bodies_are_bounded_in_total_and_small_requests_are_served(
    service: Service, stack: contextlib.ExitStack
) -> None:
    token = service.token()
    client = service.client(token)
    assert client.post(NewPlant(1, "before")).status == 200
    before = resident_mib(service)
    unfinished = head(token, b"Content-Length: 65536") + b" " * 65_535

    for _ in range(2_000):
        with contextlib.suppress(OSError):
            connect(service, stack).sendall(unfinished)

    assert client.post(NewPlant(2, "during")).status == 200
    client.close()
    assert resident_mib(service) < before + 2 * 2 * 32 + GROWTH_MIB_MAX
    service.wait_for_log("overloaded")


def test_the_memory_budget_of_a_request_is_released_when_it_ends(service: Service) -> None:
    token = service.token()
    client = service.client(token)
    requests = 2 * INCOMING_BYTES_MAX // 60_000
    for _ in range(requests // 2):
        wire = Wire(service.port)
        wire.send(head(token, b"Content-Length: 60001") + b" " * 60_000)
        wire.close()
        refused = client.send("POST", "/plants", b"x" * 60_000, {"Authorization": "Bearer x"})
        assert refused.status == 401

    assert client.post(NewPlant(1, "x" * 60_000)).status == 200
    client.close()


def test_the_process_survives_and_recovers_when_its_address_space_is_exhausted(
    service: Service, stack: contextlib.ExitStack
) -> None:
    token = service.token()
    client = service.client(token)
    assert client.post(NewPlant(1, "before")).status == 200
    limit = 512 * MIB
    resource.prlimit(service.process.pid, resource.RLIMIT_AS, (limit, limit))
    wires = []

    for _ in range(900):
        wire = stack.enter_context(contextlib.closing(Wire(service.port)))
        with contextlib.suppress(OSError):
            wire.send(head(token, b"Content-Length: 65536") + b'{"id":1,"name":"')
            wire.send("é".encode() * (32 * 1024 - 10) + b" ")
            wires.append(wire)
    for wire in wires:
        with contextlib.suppress(OSError):
            wire.send(b'"} ')

    wait_until(lambda: client.post(NewPlant(2, "after")).status == 200)
    client.close()
    assert service.process.poll() is None
    assert not any("Traceback" in line or "MemoryError" in line for line in service.log)
