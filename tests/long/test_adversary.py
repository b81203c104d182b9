"""The cost of the most expensive requests, compared with a valid create of the same size."""

import contextlib
import ssl
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import pytest

from long.measured import Measured, between
from support.attacks import (
    ATTACKS,
    CHUNKED,
    EVENTS,
    HEAD_BYTES,
    JSON,
    KIB,
    MIB,
    OF_OPERATIONS,
    Attack,
    attacked,
    authorizations,
    get,
    good,
    good_import,
    head,
)
from support.certificates import make_pair
from support.service import Service
from support.streams import reset
from support.wire import Wire

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

# The sizes of valid creates and imports. A create has at most 16 KiB in and 16 KiB out.
CREATE_SIZES = [500, 1 * KIB, 10 * KIB, 30 * KIB]
IMPORT_SIZES = [*CREATE_SIZES, 100 * KIB, MIB, 2 * MIB]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with attacked(tmp_path_factory.mktemp("adversary")) as running:
        yield running


@pytest.fixture(scope="module")
def fields(service: Service) -> dict[str, bytes]:
    return {client: field.encode() for client, field in authorizations(service).items()}


@pytest.fixture(scope="module")
def valid_seconds(
    tmp_path_factory: pytest.TempPathFactory,
) -> Callable[[Attack, Measured], float]:
    """Return a function that returns the CPU time of a valid request of the same size."""
    creates, imports = [], []
    # Its plants must not become those of the attacked service: exports would be as large.
    with attacked(tmp_path_factory.mktemp("valid")) as service:
        token = authorizations(service)["create"].encode()
        for size in CREATE_SIZES:
            # They are committed together, as under load.
            attack = Attack("good", "create", good(size), 30)
            rounds = [Measured(service, attack, token, 32) for _ in range(5)]
            assert {status for each in rounds for status in each.statuses} == {200}
            creates.append((rounds[0].bytes, median(each.seconds for each in rounds)))
        for size in IMPORT_SIZES:
            attack = Attack("good", "create", good_import(size), 5)
            streams = [Measured(service, attack, token) for _ in range(3)]
            imports.append((streams[0].sent, median(stream.seconds for stream in streams)))

    def seconds(attack: Attack, measured: Measured) -> float:
        if attack.is_import:
            return between(imports)(measured.sent)
        return between(creates)(measured.bytes)

    return seconds


@pytest.mark.parametrize("attack", ATTACKS + OF_OPERATIONS, ids=lambda attack: attack.name)
def test_no_request_costs_more_than_20_times_a_valid_create_of_its_size(
    service: Service,
    fields: dict[str, bytes],
    findings: Any,
    valid_seconds: Callable[[Attack, Measured], float],
    attack: Attack,
) -> None:
    measured = Measured(service, attack, fields[attack.client])

    is_large_file = attack.is_import and measured.sent >= LARGE_FILE_BYTES
    times_max = ROW_COST_MAX if is_large_file else COST_MAX
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
            f"≤ {times_max}",
        ]
    )
    assert not measured.statuses & {0, 500}
    assert times <= times_max


def test_a_hundred_thousand_resets_leak_no_memory(tmp_path: Path, findings: Any) -> None:
    request = head(b"GET /healthz", b"X: " + b"x" * HEAD_BYTES)
    with Service(tmp_path) as service:
        before = resident_after_a_response(service)
        for _ in range(RESETS):
            wire = Wire(service.port)
            wire.send(request)
            assert wire.answer()[0] == 200
            reset(wire)
        kept = resident_after_a_response(service) - before

    findings.add_kept("a request, and a reset", RESETS, len(request), kept / RESETS)
    assert kept < 20 * MIB


def resident_after_a_response(service: Service, context: ssl.SSLContext | None = None) -> float:
    """Return the resident bytes of the server after it has answered a new connection."""
    with Wire(service.port, context) as wire:
        wire.send(head(b"GET /healthz"))
        assert wire.answer()[0] == 200
    return service.resident_mib() * MIB


def unfinished(field: bytes, body: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes the beginning of a create."""
    return lambda token: head(b"POST /plants", token, JSON, field) + body


# The bytes that a connection sends before it waits, and the number of such connections.
HELD: dict[str, tuple[Callable[[bytes], bytes], int]] = {
    "nothing": (lambda _: b"", 1000),
    "a request that was answered": (get(b"/healthz"), 1000),
    "an unfinished head of small fields": (lambda _: head(b"GET /", *[b"a:b"] * 98)[:-2], 1000),
    "an unfinished head": (lambda _: head(b"GET /", b"X: " + b"x" * HEAD_BYTES)[:-2], 500),
    "a stream of changes": (get(b"/changes", EVENTS), 1000),
    "requests sent ahead": (lambda _: head(b"GET /healthz") * 2000, 200),
    "an unfinished body": (unfinished(b"Content-Length: 16000", b"x" * 15_000), 200),
    "an unfinished body in chunks of a byte": (unfinished(CHUNKED, b"1\r\nx\r\n" * 15_000), 200),
}


@pytest.mark.parametrize("has_tls", [False, True], ids=["http", "https"])
@pytest.mark.parametrize("what", HELD)
def test_no_connection_holds_more_memory_than_4_times_its_bytes_and_64_kib(
    tmp_path: Path,
    findings: Any,
    what: str,
    has_tls: bool,  # noqa: FBT001
) -> None:
    request, connections = HELD[what]
    pair = make_pair(tmp_path) if has_tls else None
    context = pair and pair.trusted()
    options = pair.options() if pair else []
    with Service(tmp_path, *options) as service, contextlib.ExitStack() as stack:
        data = request(b"Authorization: Bearer " + service.token().encode())
        before = resident_after_a_response(service, context)
        for _ in range(connections):
            stack.enter_context(Wire(service.port, context)).send(data)
        kept = (resident_after_a_response(service, context) - before) / connections

    findings.add_kept(f"{what}{' over TLS' if has_tls else ''}", connections, len(data), kept)
    assert kept <= KEPT_MAX * len(data) + KEPT_SLACK_BYTES
