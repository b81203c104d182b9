"""Response times of an honest client beside many greedy clients, and survival of the process."""

import contextlib
import json
import resource
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from plantstore.api.imports import IMPORTS_MAX
from plantstore.plants import NewPlant
from support.attacks import (
    ATTACKS,
    HOLDS,
    LARGE_PLANTS,
    MIB,
    USUAL_PLANTS,
    batched,
    stored,
)
from support.flood import peak_mib
from support.load import Load
from support.measured import OPERATIONS, open_logs, resident_bytes
from support.postgres import wait_until
from support.service import Client, Service
from support.streams import import_once, line

GREEDY = Path(__file__).parents[1] / "support/greedy.py"
CONNECTIONS = 200
SECONDS = 8.0

# As many connections as these clients have places, so that none of them is refused; and the part
# of the rate of creates that must be left beside them. Their process uses a CPU, too.
HOLDING = 36
CREATES_PART_MIN = 0.2

# The maximum 99th percentile of the response times of the honest client.
WAIT_MS_MAX = 1000

ADDRESS_SPACE_BYTES = 512 * MIB

SCOPES = {
    "no token": [],
    "read": ["plants:read"],
    "create": ["plants:create"],
    "change": ["plants:update", "plants:delete"],
}
KINDS = {attack.name: attack.client for attack in ATTACKS if attack.piece_bytes is None} | {
    hold.name: hold.client for hold in HOLDS
}


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path) as running:
        for plants in batched(stored()):
            running.change(*plants)
        yield running


@contextlib.contextmanager
def greedy(
    service: Service, names: list[str], connections: int = CONNECTIONS
) -> Iterator[subprocess.Popen[str]]:
    """Run greedy connections in another process, which ends by itself after SECONDS."""
    tokens = {
        client: service.token(*scopes, name=client) if scopes else ""
        for client, scopes in SCOPES.items()
    }
    command = [sys.executable, str(GREEDY), str(service.port), str(SECONDS), str(connections)]
    with subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        env=service.env | {"PYTHONPATH": ":".join(sys.path)},
    ) as process:
        assert process.stdin is not None
        json.dump({name: tokens[KINDS[name]] for name in names}, process.stdin)
        process.stdin.close()
        yield process


class Honest:
    """A client that sends each operation in turn and records the response times."""

    def __init__(self, service: Service) -> None:
        self.client = service.client(service.token(name="honest"))
        self.milliseconds: dict[str, list[float]] = {name: [] for name in OPERATIONS}
        self.statuses: set[int] = set()
        self._ids = count(-1, -1)

    def work(self) -> None:
        client, id_ = self.client, next(self._ids)
        self._time("health", lambda: client.send("GET", "/healthz"))
        self._time("create", lambda: client.post(NewPlant(id_, "a")))
        self._time("show", lambda: client.send("GET", f"/plants/{id_}"))
        self._time("list", lambda: client.send("GET", "/plants?limit=10"))
        self._time("replace", lambda: client.send_record("PUT", f"/plants/{id_}", "b", None))
        self._time("delete", lambda: client.send("DELETE", f"/plants/{id_}"))

    def _time(self, name: str, act: Any) -> None:
        began = time.perf_counter()
        self.statuses.add(act().status)
        self.milliseconds[name].append((time.perf_counter() - began) * 1e3)

    def p99(self, name: str) -> float:
        values = sorted(self.milliseconds[name])
        return values[min(len(values) - 1, int(len(values) * 0.99))]


def work_while_running(client: Client, honest: Honest, process: subprocess.Popen[str]) -> None:
    while process.poll() is None:
        honest.work()
    client.close()


@pytest.mark.parametrize("name", KINDS)
def test_an_honest_client_waits_less_than_a_second_beside_greedy_ones(
    service: Service, findings: Any, name: str
) -> None:
    honest = Honest(service)

    with greedy(service, [name]) as process:
        work_while_running(honest.client, honest, process)
        assert process.stdout is not None
        statuses = json.loads(process.stdout.read())

    waits = [honest.p99(operation) for operation in OPERATIONS]
    findings.waits.append([name, *(f"{wait:,.0f}" for wait in waits)])
    assert "500" not in statuses
    assert max(waits) < WAIT_MS_MAX, (name, waits)


def test_an_honest_client_waits_less_than_a_second_beside_pipelined_requests(
    service: Service, findings: Any
) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    honest = Honest(service)
    with contextlib.ExitStack() as stack:
        for _ in range(1_000):
            connection = socket.create_connection(("127.0.0.1", service.port), timeout=60)
            stack.enter_context(connection)
            connection.sendall(request * 498)
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            honest.work()
    honest.client.close()

    waits = [honest.p99(operation) for operation in OPERATIONS]
    findings.waits.append(
        ["498 pipelined requests, 1,000 times", *(f"{wait:,.0f}" for wait in waits)]
    )
    assert max(waits) < WAIT_MS_MAX, waits


def test_in_a_small_address_space_all_attacks_together_cause_at_most_503s(service: Service) -> None:
    honest = Honest(service)
    honest.work()
    limit = (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES)
    resource.prlimit(service.process.pid, resource.RLIMIT_AS, limit)

    with greedy(service, list(KINDS)) as process:
        work_while_running(honest.client, honest, process)
        assert process.stdout is not None
        statuses = json.loads(process.stdout.read())

    assert service.process.poll() is None
    assert "500" not in statuses
    assert honest.statuses <= {200, 204, 404, 503}
    assert not any("Traceback" in line or "MemoryError" in line for line in service.log)
    assert resident_bytes(service) < ADDRESS_SPACE_BYTES


def test_clients_that_hold_imports_and_exports_slow_creates_little_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    """The service cuts off most of them, because a request has two seconds."""
    with Service(tmp_path, "--request-seconds", "2") as service:
        for plants in batched(stored()):
            service.change(*plants)
        token = service.token(name="honest")
        load = Load(service, token, -1_000_000_000)
        load.wait_for_more()
        sockets, logs = service.open_sockets(), open_logs(service)
        alone = created_in(SECONDS / 4, load)

        with greedy(service, [hold.name for hold in HOLDS], HOLDING) as process:
            beside = created_in(SECONDS / 2, load) / 2
            assert process.stdout is not None
            statuses = json.loads(process.stdout.read())

        wait_until(lambda: service.open_sockets() <= sockets and open_logs(service) <= logs)
        load.stop()
        imported = import_together(service, token)
        exported = export_all(service, token)
        peak = peak_mib(service)

    assert load.refused == []
    assert statuses.keys() == {"408"}
    assert beside > alone * CREATES_PART_MIN, (beside, alone)
    assert imported == [200] * (IMPORTS_MAX * 3 // 4)
    assert exported == len(load.acknowledged) + USUAL_PLANTS + LARGE_PLANTS
    assert peak < 512


def created_in(seconds: float, load: Load) -> int:
    """Return how many plants are created in this time."""
    before = len(load.acknowledged)
    time.sleep(seconds)
    return len(load.acknowledged) - before


def import_together(service: Service, token: str) -> list[int]:
    """Use each place that a token may have for an import, at once; return the statuses."""
    places = IMPORTS_MAX * 3 // 4
    barrier = threading.Barrier(places)

    def pieces(number: int) -> Iterator[bytes]:
        yield line(number)
        barrier.wait(60)

    with ThreadPoolExecutor(places) as pool:
        answers = pool.map(
            lambda number: import_once(service, token, pieces(number)), range(places)
        )
        return [answer.status for answer in answers]


def export_all(service: Service, token: str) -> int:
    """Return the number of plants in an export."""
    with contextlib.closing(service.client(token)) as client:
        answer = client.send("GET", "/plants.ndjson")
    return answer.body.count(b"\n")
