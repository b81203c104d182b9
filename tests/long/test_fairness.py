"""Response times of an honest client beside many greedy clients, and survival of the process."""

import multiprocessing
import resource
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from long.greedy import send_for
from long.measured import OPERATIONS
from plantstore.plants import NewPlant
from support.attacks import (
    ATTACKS,
    HOLDS,
    MIB,
    REQUESTS,
    attacked,
    authorizations,
)
from support.service import Client, Service

CONNECTIONS = 200
SECONDS = 8.0

# The maximum 99th percentile of the response times of the honest client.
WAIT_MS_MAX = 1000

ADDRESS_SPACE_BYTES = 512 * MIB

AT_ONCE = [each.name for each in ATTACKS if each.piece_bytes is None]
HELD = [hold.name for hold in HOLDS]


def attack(service: Service, names: list[str], act: Callable[[], object]) -> Counter[int]:
    """Act again and again beside greedy connections; return how often each status was answered.

    The connections are in another process, which ends by itself after SECONDS.
    """
    fields = authorizations(service)
    sent = {name: fields[REQUESTS[name].client] for name in names}
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn")) as pool:
        sending = pool.submit(send_for, SECONDS, service.port, CONNECTIONS, sent)
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
