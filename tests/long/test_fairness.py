"""Response times of an honest client beside many greedy clients, and survival of the process."""

import contextlib
import multiprocessing
import resource
import socket
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from plantstore.api.file_imports import IMPORTS_MAX
from plantstore.plants import NewPlant
from support.attacks import (
    ATTACKS,
    HOLDS,
    LARGE_PLANTS,
    MIB,
    REQUESTS,
    USUAL_PLANTS,
    attacked,
    authorizations,
)
from support.greedy import send_for
from support.load import Load
from support.measured import OPERATIONS, open_logs
from support.postgres import wait_until
from support.service import Client, Service
from support.streams import line, streaming_head
from support.wire import Wire, chunk

CONNECTIONS = 200
SECONDS = 8.0

# As many connections as these clients have places, so that none of them is refused; and the part
# of the rate of creates that must be left beside them. Their process uses a CPU, too.
HOLDING = 36
CREATES_PART_MIN = 0.2

# The maximum 99th percentile of the response times of the honest client.
WAIT_MS_MAX = 1000

ADDRESS_SPACE_BYTES = 512 * MIB

AT_ONCE = [each.name for each in ATTACKS if each.piece_bytes is None]
HELD = [hold.name for hold in HOLDS]
WITH_PLACES = [name for name in HELD if "import" in name or "export" in name]


def attack(
    service: Service, names: list[str], act: Callable[[], object], connections: int = CONNECTIONS
) -> Counter[int]:
    """Act again and again beside greedy connections; return how often each status was answered.

    The connections are in another process, which ends by itself after SECONDS.
    """
    fields = authorizations(service)
    sent = {name: fields[REQUESTS[name].client] for name in names}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        sending = pool.submit(send_for, SECONDS, service.port, connections, sent)
        while not sending.done():
            act()
        return sending.result()


class Honest:
    """A client that sends each operation in turn and records the response times."""

    def __init__(self, client: Client) -> None:
        self.client = client
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

    def p99s(self) -> list[float]:
        """Return the 99th percentile of the milliseconds of each operation."""
        waits = map(sorted, self.milliseconds.values())
        return [values[int(len(values) * 0.99)] for values in waits]


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with attacked(tmp_path) as running:
        yield running


@pytest.fixture
def honest(service: Service) -> Iterator[Honest]:
    with service.client(service.token(name="honest")) as client:
        yield Honest(client)


@pytest.mark.parametrize("name", AT_ONCE + HELD)
def test_an_honest_client_waits_less_than_a_second_beside_greedy_ones(
    service: Service, honest: Honest, findings: Any, name: str
) -> None:
    statuses = attack(service, [name], honest.work)

    findings.waits.append([name, *(f"{wait:,.0f}" for wait in honest.p99s())])
    assert 500 not in statuses
    assert max(honest.p99s()) < WAIT_MS_MAX


def test_an_honest_client_waits_less_than_a_second_beside_pipelined_requests(
    service: Service, honest: Honest, findings: Any
) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1_000):
            connection = socket.create_connection(("127.0.0.1", service.port), timeout=60)
            stack.enter_context(connection)
            connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n" * 498)
        ends = time.monotonic() + SECONDS
        while time.monotonic() < ends:
            honest.work()

    name = "498 pipelined requests, 1,000 times"
    findings.waits.append([name, *(f"{wait:,.0f}" for wait in honest.p99s())])
    assert max(honest.p99s()) < WAIT_MS_MAX


def test_in_a_small_address_space_all_attacks_together_cause_at_most_503s(
    service: Service, honest: Honest
) -> None:
    honest.work()
    limit = (ADDRESS_SPACE_BYTES, ADDRESS_SPACE_BYTES)
    resource.prlimit(service.process.pid, resource.RLIMIT_AS, limit)

    statuses = attack(service, AT_ONCE + HELD, honest.work)

    assert service.process.poll() is None
    assert 500 not in statuses
    assert honest.statuses <= {200, 204, 404, 503}
    assert not any("Traceback" in line or "MemoryError" in line for line in service.log)
    assert service.resident_mib() < ADDRESS_SPACE_BYTES / MIB


def test_clients_that_hold_imports_and_exports_slow_creates_little_and_leave_nothing_behind(
    tmp_path: Path,
) -> None:
    """The service cuts off most of them, because a request has two seconds."""
    with attacked(tmp_path, "--request-seconds", "2") as service:
        token = service.token(name="honest")
        load = Load(service, token, -1_000_000_000)
        load.wait_for_more()
        sockets, logs = service.open_sockets(), open_logs(service)
        alone, beside = created_in(SECONDS / 4, load), list[int]()

        statuses = attack(
            service, WITH_PLACES, lambda: beside.append(created_in(SECONDS / 4, load)), HOLDING
        )

        wait_until(lambda: service.open_sockets() <= sockets and open_logs(service) <= logs)
        load.stop()
        imported = import_at_once(service, token, IMPORTS_MAX * 3 // 4)
        with service.client(token) as client:
            exported = client.send("GET", "/plants.ndjson").body.count(b"\n")
        peak = service.peak_mib()

    assert load.refused == []
    assert statuses.keys() == {408}
    assert sum(beside[:2]) / 2 > alone * CREATES_PART_MIN, (beside, alone)
    assert imported == {200}
    assert exported == len(load.acknowledged) + USUAL_PLANTS + LARGE_PLANTS
    assert peak < 512


def import_at_once(service: Service, token: str, imports: int) -> set[int]:
    """Import a row with each of so many imports, all at the same time; return the statuses."""
    with contextlib.ExitStack() as stack:
        wires = [stack.enter_context(Wire(service.port)) for _ in range(imports)]
        for wire in wires:
            wire.send(streaming_head(token, b"Expect: 100-continue"))
        assert {wire.answer()[0] for wire in wires} == {100}
        for wire in wires:
            wire.send(chunk(line(1)) + b"0\r\n\r\n")
        return {wire.answer()[0] for wire in wires}


def created_in(seconds: float, load: Load) -> int:
    """Return how many plants are created in this time."""
    before = len(load.acknowledged)
    time.sleep(seconds)
    return len(load.acknowledged) - before
