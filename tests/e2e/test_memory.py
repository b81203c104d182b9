"""Bounds on the memory that the bodies of requests take. tests/long measures each connection."""

import contextlib

import pytest

from plantstore.plants import NewPlant
from plantstore.server.budget import INCOMING_BYTES_MAX
from support.service import Client, Service
from support.wire import Wire, head

pytestmark = pytest.mark.serve("--request-seconds", "3600", "--stop-seconds", "1")

# Without a bound, the bodies take 100 MiB more.
GROWTH_MIB_MAX = 2 * 2 * 32 + 60


def test_the_memory_budget_of_a_request_is_released_when_it_ends(
    service: Service, client: Client, token: str
) -> None:
    for _ in range(INCOMING_BYTES_MAX // 16_000):
        with Wire(service.port) as wire:
            wire.send(head(token, b"Content-Length: 16001") + b" " * 16_000)
        refused = client.send("POST", "/plants", b"x" * 16_000, {"Authorization": "Bearer x"})
        assert refused.status == 401

    assert client.post(NewPlant(1, "x" * 16_000)).status == 200


def test_unfinished_bodies_are_bounded_in_total_and_small_requests_are_served(
    service: Service, client: Client, token: str
) -> None:
    assert client.post(NewPlant(2, "before")).status == 200
    before = service.resident_mib()
    unfinished = head(token, b"Content-Length: 16384") + b" " * 16_383

    with contextlib.ExitStack() as stack:
        for _ in range(2_500):
            with contextlib.suppress(OSError):
                stack.enter_context(Wire(service.port)).send(unfinished)

        assert client.post(NewPlant(3, "during")).status == 200
        assert service.resident_mib() < before + GROWTH_MIB_MAX
        service.wait_for_log("overloaded")
