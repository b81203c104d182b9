"""The service on a PostgreSQL server that fails over. `make cluster` does so many times.

Every acknowledged plant must be stored, and every stored plant must have been sent. Clients
must get only 200, 400 and 503. The service must recover by itself when the server is back.
"""

import contextlib
import json
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import Programs, running_pair, url_of, wait_until
from support.service import Service, serving, stored_plants

pytestmark = pytest.mark.engines("postgres")

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
        primary, standby = stack.enter_context(running_pair(postgres_programs))
        database = url_of(primary, standby)
        services = [stack.enter_context(Service(tmp_path, database=database)) for _ in range(2)]

        with loaded(*services) as loads:
            assert [readiness(service) for service in services] == [200, 200]
            primary.kill()
            wait_until(lambda: [readiness(service) for service in services] == [503, 503])
            standby.promote()
            for load in loads:
                load.wait_for_more(seconds=RECOVERY_SECONDS)
            wait_until(lambda: [readiness(service) for service in services] == [200, 200])

        assert_nothing_is_lost(database, loads)
        assert all(503 in load.refused for load in loads)


def test_the_log_and_the_metrics_show_the_primary_and_its_standbys(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    options = ("--standbys-min", "1", "--workers", "2")
    with (
        running_pair(postgres_programs) as (primary, standby),
        serving(tmp_path, *options, database=primary.url()) as (service, client),
    ):
        server = f"127.0.0.1:{primary.port}"
        assert client.post(NewPlant(1, "a")).status == 200
        metric = "plantstore_synchronous_standbys"
        assert client.total(metric, server=server) == 1
        assert client.total("plantstore_last_commit_timestamp_seconds") > 0

        standby.stop()
        primary.use_names("")
        wait_until(lambda: client.total(metric) == 0)
        refused = client.post(NewPlant(2, "b"))
        assert (refused.status, refused.json["error"]) == (503, 5003)
        assert client.send("GET", "/plants/1").status == 200
        wait_until(lambda: readiness(service) == 503)

    lines = service.logged("database server")
    told = [(line["server"], line["standbys"]) for line in lines]
    assert {*told} >= {(server, 1), (server, 0)}
    reasons = [json.loads(line).get("reason", "") for line in service.log if '"reason"' in line]
    assert any(f"{server}: its commits wait for 0" in reason for reason in reasons)
    assert all(len(reason) < 300 for reason in reasons)


def test_three_instances_that_start_at_once_print_one_token(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        services = list(pool.map(lambda _: stack.enter_context(Service(tmp_path)), range(3)))

    assert sum("plst_" in service.said for service in services) == 1
