"""The service on a PostgreSQL server that fails over, restarts, hangs or drops connections.

Every acknowledged plant must be stored, and every stored plant must have been sent. Clients
must get only 200, 400 and 503. The service must recover by itself when the server is back.
"""

import contextlib
import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import Programs, Server, wait_until
from support.proxy import Proxy
from support.service import Client, Service, serving, stored_plants

pytestmark = pytest.mark.engines("postgres")

FAILOVERS = 2
RECOVERY_SECONDS = 10


@contextlib.contextmanager
def loaded(*services: Service) -> Iterator[list[Load]]:
    """Put load on services, each with its own plants, and stop them when the block ends."""
    token = services[0].token()
    loads = [Load(service, token, n * 100_000_000) for n, service in enumerate(services)]
    try:
        for load in loads:
            load.wait_for_more()
        yield loads
    finally:
        for service in services:
            service.stop()
        for load in loads:
            load.join()


def assert_nothing_is_lost(database: str, loads: list[Load]) -> None:
    stored = stored_plants(database)
    for load in loads:
        assert set(load.refused) <= {503}
        assert load.acknowledged.items() <= stored.items(), "an acknowledged plant is missing"
    sent = {id_: plant for load in loads for id_, plant in load.sent.items()}
    assert stored.items() <= sent.items(), "a plant is stored that no client sent"


def readiness(service: Service) -> int:
    with service.client(None) as client:
        return client.send("GET", "/readyz").status


def test_when_the_primary_dies_the_standby_takes_over_and_nothing_is_lost(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(Server(postgres_programs, "primary0"))
        standby = stack.enter_context(primary.standby("standby0"))
        primary.wait_for_standby("standby0")
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        database = f"postgresql://postgres@{hosts}/postgres"
        services = [stack.enter_context(Service(tmp_path, database=database)) for _ in range(2)]

        with loaded(*services) as loads:
            for number in range(1, FAILOVERS + 1):
                assert [readiness(service) for service in services] == [200, 200]
                primary.kill()
                for service in services:
                    wait_until(lambda service=service: readiness(service) == 503)  # type: ignore[misc]
                standby.promote()
                for load in loads:
                    load.wait_for_more(seconds=RECOVERY_SECONDS)
                for service in services:
                    wait_until(lambda service=service: readiness(service) == 200)  # type: ignore[misc]
                # For the next round, a new standby replaces the dead primary.
                port, primary = primary.port, standby
                standby = stack.enter_context(primary.standby(f"standby{number}", port))
                primary.wait_for_standby(f"standby{number}")

        assert_nothing_is_lost(database, loads)
        assert all(503 in load.refused for load in loads)


def test_the_log_and_the_metrics_show_the_primary_and_its_standbys(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(Server(postgres_programs, "primary"))
        standby = stack.enter_context(primary.standby("standby"))
        primary.wait_for_standby("standby")
        service = stack.enter_context(
            Service(tmp_path, "--standbys-min", "1", "--workers", "2", database=primary.url())
        )
        server = f"127.0.0.1:{primary.port}"
        client = stack.enter_context(service.client(service.token()))
        assert client.post(NewPlant(1, "a")).status == 200
        metric = "plantstore_synchronous_standbys"
        assert client.total(metric, server=server, timeline="1") == 1
        assert client.total("plantstore_last_commit_timestamp_seconds") > 0

        standby.stop()
        primary.execute("ALTER SYSTEM SET synchronous_standby_names = ''")
        primary.execute("SELECT pg_reload_conf()")
        wait_until(lambda: client.total(metric) == 0)
        refused = client.post(NewPlant(2, "b"))
        assert (refused.status, refused.json["error"]) == (503, 5003)
        assert client.send("GET", "/plants/1").status == 200
        wait_until(lambda: readiness(service) == 503)

    lines = service.logged("database server")
    told = [(line["server"], line["timeline"], line["standbys"]) for line in lines]
    assert {*told} >= {(server, 1, 1), (server, 1, 0)}
    reasons = [json.loads(line).get("reason", "") for line in service.log if '"reason"' in line]
    assert any(f"{server}: its commits wait for 0" in reason for reason in reasons)
    assert all(len(reason) < 300 for reason in reasons)


def test_a_connection_lost_during_a_commit_is_503_and_a_retry_is_safe(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with Server(postgres_programs, "cut") as server, Proxy(server.port) as proxy:
        database = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
        with serving(tmp_path, database=database) as (_, client):
            cuts: list[tuple[Literal["before", "after"], int]] = [("before", 2), ("after", 3)]
            for cut, id_ in cuts:
                # Repeat until the cut hits the writer's commit, not a lookup of the token.
                message = ""
                while "may or may not" not in message:
                    assert client.post(NewPlant(1, "a")).status == 200
                    proxy.cut = cut
                    answer = client.post(NewPlant(id_, "b"))
                    message = answer.json["message"]

                assert (answer.status, answer.json["error"]) == (503, 5003)
                assert answer.headers["retry-after"] == "1"
                assert "may or may not be made, and sending it again is safe" in message
                assert "127.0.0.1" not in message, "the message shows the address of the server"
                assert (id_ in stored_plants(server.url())) is (cut == "after")
                assert client.post(NewPlant(id_, "b")).status == 200

        assert stored_plants(server.url()).keys() == {1, 2, 3}


def test_three_instances_that_start_at_once_print_one_token_and_store_each_id_once(
    tmp_path: Path, database: str
) -> None:
    barrier = threading.Barrier(3)

    def create(client: Client, name: str) -> list[int]:
        barrier.wait()
        return [client.post(NewPlant(id_, name)).status for id_ in range(100)]

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        services = list(pool.map(lambda _: stack.enter_context(Service(tmp_path)), range(3)))
        token = services[0].token()
        clients = [stack.enter_context(service.client(token)) for service in services]
        statuses = list(pool.map(create, clients, "abc"))

    assert sum("plst_" in service.said for service in services) == 1
    stored = stored_plants(database)
    for id_, answers in enumerate(zip(*statuses, strict=True)):
        assert sorted(answers) == [200, 400, 400]
        assert stored[id_].name == "abc"[answers.index(200)]
