"""A copy that follows the feed, after many kills under load."""

import contextlib
import itertools
import random
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from support.crashes import kill_all
from support.events import copied, following
from support.fronts import free_port
from support.histories import play
from support.postgres import Databases, wait_until
from support.service import Service, stored_plants

KILLS = 20
CLIENTS = 6


@pytest.mark.parametrize(("engine", "instances"), [("sqlite", 1), ("postgres", 3)])
def test_the_example_equals_the_plants_after_twenty_kills_under_load(
    tmp_path: Path, request: pytest.FixtureRequest, soak: Any, engine: str, instances: int
) -> None:
    """Half of the kills end the follower, and the others a service with two workers."""
    database = f"sqlite:///{tmp_path}/plants.db"
    if engine == "postgres":
        databases: Databases = request.getfixturevalue("databases")
        database = databases.new()
    moments = random.Random(0)
    file = tmp_path / "copy.jsonl"
    ports = [free_port() for _ in range(instances)]
    options = ("--workers", "2") if engine == "sqlite" else ()
    token, acknowledged = "", 0

    def serve(port: int) -> Service:
        return Service(tmp_path, *options, "--port", str(port), database=database)

    for number in range(KILLS):
        barrier = threading.Barrier(CLIENTS + 1)
        with contextlib.ExitStack() as stack:
            services = [stack.enter_context(serve(port)) for port in ports]
            token = token or services[0].token()
            follower = stack.enter_context(following(ports[-1], token, file))
            pool = stack.enter_context(ThreadPoolExecutor(CLIENTS))
            played = [
                pool.submit(play, service.client(token), barrier, CLIENTS * number + seed, 200)
                for seed, service in zip(range(CLIENTS), itertools.cycle(services), strict=False)
            ]
            barrier.wait(60)
            with services[-1].client(token) as client:
                for _ in range(moments.randrange(10, 200)):
                    client.send("GET", "/readyz")
            if number % 2:
                follower.kill()
            else:
                kill_all(services[0])
            history = [operation for each in played for operation in each.result(120)]
            acknowledged += sum(operation.status in (200, 201, 204) for operation in history)
    stored = stored_plants(database)
    with serve(ports[-1]), following(ports[-1], token, file):
        expected = [stored[id_] for id_ in sorted(stored)]

        wait_until(lambda: copied(file) == expected)

    soak.add(
        f"kill -9 of a follower and of the service, {engine}",
        faults=KILLS,
        acknowledged=acknowledged,
        lost=0,
    )
    assert acknowledged > KILLS
