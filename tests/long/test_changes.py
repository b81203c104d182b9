"""Followers of the feed: a copy after many kills under load, and a thousand streams."""

import contextlib
import itertools
import random
import socket
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from plantstore.plants import NewPlant
from support.crashes import kill_all
from support.example import copied, following
from support.fronts import free_port
from support.histories import play
from support.postgres import Databases, wait_until
from support.service import Service, stored_plants
from support.wire import get

KILLS = 20
CLIENTS = 6
STREAMS = 1_000

# What 1,000 idle streams may take.
STREAMS_MIB_MAX = 28


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


def test_a_thousand_idle_streams_take_little_memory(tmp_path: Path) -> None:
    with Service(tmp_path) as service, contextlib.ExitStack() as stack:
        token = service.token()
        client = stack.enter_context(contextlib.closing(service.client(token)))
        request = get("/changes?after=now", token, b"Accept: text/event-stream")

        def open_streams(count: int) -> list[socket.socket]:
            address = ("127.0.0.1", service.port)
            streams = [
                stack.enter_context(socket.create_connection(address, 30)) for _ in range(count)
            ]
            for stream in streams:
                stream.sendall(request)
            for stream in streams:
                assert stream.recv(4096).startswith(b"HTTP/1.1 200 OK")
            return streams

        open_streams(10)
        before = service.resident_mib()
        streams = open_streams(STREAMS)
        taken = service.resident_mib() - before

        assert client.post(NewPlant(1, "a")).status == 200

        for stream in streams:
            received = b""
            while b"event: created" not in received:
                piece = stream.recv(4096)
                assert piece
                received += piece
    assert taken < STREAMS_MIB_MAX
