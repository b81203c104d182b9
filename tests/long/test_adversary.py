"""The cost of the most expensive requests, compared with a valid create of the same size."""

import contextlib
import socket
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from support.attacks import (
    ATTACKS,
    HEAD_BYTES,
    KIB,
    MIB,
    Attack,
    batched,
    get,
    good,
    good_import,
    head,
    stored,
)
from support.measured import Measured, between, good_create_seconds, resident_bytes
from support.service import Service

# A request may cost at most COST_MAX times the CPU time of a valid create of the same number
# of bytes, in and out; an import may cost so many times that of a valid import.
COST_MAX = 20

# A byte of a row that is not valid may cost at most so many times the CPU time of a byte of a valid
# one, in files of this size.
ROW_COST_MAX = 3
LARGE_FILE_BYTES = 500 * KIB

# A connection may make the server hold at most KEPT_MAX times the bytes that it sent, plus
# KEPT_SLACK_BYTES.
KEPT_MAX = 4
KEPT_SLACK_BYTES = 64 * KIB

RESETS = 100_000

SIZES = [500, 1 * KIB, 10 * KIB, 100 * KIB, MIB, 2 * MIB]
SCOPES = {
    "read": ["plants:read"],
    "create": ["plants:create"],
    "change": ["plants:update", "plants:delete"],
}


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("adversary")) as running:
        for plants in batched(stored()):
            running.change(*plants)
        yield running


@pytest.fixture(scope="module")
def tokens(service: Service) -> dict[str, bytes]:
    secrets = {name: service.token(*scopes, name=name) for name, scopes in SCOPES.items()}
    fields = {name: b"Authorization: Bearer " + secret.encode() for name, secret in secrets.items()}
    return fields | {"no token": b""}


@pytest.fixture(scope="module")
def valid_seconds(
    service: Service, tokens: dict[str, bytes]
) -> Callable[[Attack, Measured], float]:
    """Return a function that returns the CPU time of a valid request of the same size."""
    creates, imports = [], []
    for size in SIZES:
        # Small creates are committed together, as under load.
        connections, times = (32, 30) if size < MIB else (1, 20)
        attack = Attack("good", "create", good(size), times)
        rounds = [
            good_create_seconds(service, attack, tokens["create"], connections) for _ in range(5)
        ]
        creates.append((rounds[0][0], median(seconds for _, seconds in rounds)))
        attack = Attack("good", "create", good_import(size), 5)
        streams = [Measured(service, attack, tokens["create"]) for _ in range(3)]
        imports.append((streams[0].sent, median(stream.seconds for stream in streams)))

    def seconds(attack: Attack, measured: Measured) -> float:
        if attack.is_import:
            return between(imports)(measured.sent)
        return between(creates)(measured.bytes)

    return seconds


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda attack: attack.name)
def test_no_request_costs_more_than_20_times_a_valid_create_of_its_size(
    service: Service,
    tokens: dict[str, bytes],
    findings: Any,
    valid_seconds: Callable[[Attack, Measured], float],
    attack: Attack,
) -> None:
    measured = Measured(service, attack, tokens[attack.client])

    times = measured.seconds / valid_seconds(attack, measured)
    findings.costs.append(
        [
            attack.name,
            attack.client,
            f"{measured.sent:,}",
            f"{measured.bytes:,}",
            f"{measured.seconds * 1e6:,.0f}",
            f"{measured.seconds * 1e9 / measured.bytes:,.1f}",
            f"{times:.1f}",
        ]
    )
    assert not measured.statuses & {0, 500}
    assert times <= COST_MAX
    assert not attack.is_import or measured.sent < LARGE_FILE_BYTES or times <= ROW_COST_MAX


def test_a_hundred_thousand_resets_leak_no_memory(tmp_path: Path, findings: Any) -> None:
    request = head(b"GET /healthz", b"X: " + b"x" * HEAD_BYTES)
    with Service(tmp_path) as service:
        client = service.client(None)
        assert client.send("GET", "/healthz").status == 200
        client.close()
        before = resident_bytes(service)

        for _ in range(RESETS):
            with socket.create_connection(("127.0.0.1", service.port), timeout=60) as opened:
                opened.sendall(request)
                assert opened.recv(12) == b"HTTP/1.1 200"
                opened.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))

        client = service.client(None)
        assert client.send("GET", "/healthz").status == 200
        kept = resident_bytes(service) - before
        client.close()

    findings.kept.append(
        [
            "a request, and a reset",
            f"{RESETS:,}",
            f"{len(request):,}",
            f"{kept / RESETS:,.0f}",
            f"{kept / RESETS / len(request):.1f}",
        ]
    )
    assert kept < 20 * MIB


# The bytes that a connection sends before it waits, and the number of such connections.
HELD: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "nothing": (lambda _: b"", 1000),
    "a request that was answered": (get(b"/healthz"), 1000),
    "an unfinished head of small fields": (lambda _: head(b"GET /", *[b"a:b"] * 98)[:-2], 1000),
    "an unfinished head": (lambda _: head(b"GET /", b"X: " + b"x" * HEAD_BYTES)[:-2], 500),
    "requests sent ahead": (lambda _: head(b"GET /healthz") * 2000, 200),
    "an unfinished body": (
        lambda token: head(b"POST /plants", token, b"Content-Type: application/json",
                           b"Content-Length: 1000000") + b"x" * 100_000, 200,
    ),
    "an unfinished body in chunks of a byte": (
        lambda token: head(b"POST /plants", token, b"Content-Type: application/json",
                           b"Transfer-Encoding: chunked") + b"1\r\nx\r\n" * 20_000, 200,
    ),
}  # fmt: skip


@pytest.mark.parametrize("what", HELD)
def test_no_connection_holds_more_memory_than_4_times_its_bytes_and_64_kib(
    tmp_path: Path, findings: Any, what: str
) -> None:
    request, connections = HELD[what]
    with Service(tmp_path) as service, contextlib.ExitStack() as stack:
        data = request(b"Authorization: Bearer " + service.token().encode())
        client = service.client(None)
        assert client.send("GET", "/healthz").status == 200
        before = resident_bytes(service)

        for _ in range(connections):
            opened = socket.create_connection(("127.0.0.1", service.port), timeout=60)
            stack.enter_context(opened)
            opened.sendall(data)
        assert client.send("GET", "/healthz").status == 200
        kept = (resident_bytes(service) - before) / connections
        client.close()

    per_byte = f"{kept / len(data):.1f}" if data else "-"
    findings.kept.append(
        [what, f"{connections:,}", f"{len(data):,}", f"{kept:,.0f}", per_byte],
    )
    assert kept <= KEPT_MAX * len(data) + KEPT_SLACK_BYTES
