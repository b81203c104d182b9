"""The service on a PostgreSQL server that fails over, restarts, hangs or drops connections.

Every acknowledged plant must be stored, and every stored plant must have been sent. Clients
must get only 200, 400 and 503. The service must recover by itself when the server is back.
"""

import contextlib
import json
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Literal

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import Programs, Server, execute, wait_until
from support.proxy import Proxy
from support.service import Client, Service, stored_plants

pytestmark = pytest.mark.engines("postgres")

FAILOVERS = 3
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
    client = service.client(None)
    try:
        return client.send("GET", "/readyz").status
    finally:
        client.close()


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
                standby.execute("SELECT pg_promote()")
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
        client = service.client(service.token())
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
        client.close()

    lines = [json.loads(line) for line in service.log if '"database server"' in line]
    told = [(line["server"], line["timeline"], line["standbys"]) for line in lines]
    assert {*told} >= {(server, 1, 1), (server, 1, 0)}
    reasons = [json.loads(line).get("reason", "") for line in service.log if '"reason"' in line]
    assert any(f"{server}: its commits wait for 0" in reason for reason in reasons)
    assert all(len(reason) < 300 for reason in reasons)


def test_a_plant_that_no_standby_has_is_not_acknowledged_however_often_it_is_sent(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    """Cancelling the wait of a commit for the standby leaves the commit on the primary only."""
    cancel = "SELECT pg_cancel_backend(pid) FROM pg_stat_activity WHERE wait_event = 'SyncRep'"
    with contextlib.ExitStack() as stack:
        primary = stack.enter_context(Server(postgres_programs, "primary"))
        standby = stack.enter_context(primary.standby("standby"))
        primary.wait_for_standby("standby")
        hosts = f"127.0.0.1:{primary.port},127.0.0.1:{standby.port}"
        database = f"postgresql://postgres@{hosts}/postgres"
        service = stack.enter_context(Service(tmp_path, database=database))
        pool = stack.enter_context(ThreadPoolExecutor(1))
        client = service.client(service.token())
        assert client.post(NewPlant(1, "a")).status == 200
        standby.stop()

        for _ in range(3):
            sent = pool.submit(client.post, NewPlant(2, "b"))
            wait_until(lambda: bool(primary.execute(cancel)))
            answer = sent.result(60)
            assert answer.status == 503
            assert "sending it again is safe" in answer.json["message"]
            assert primary.execute("SELECT id FROM plants ORDER BY id") == [(1,), (2,)]

        sent = pool.submit(client.post, NewPlant(2, "b"))
        standby.start()
        assert sent.result(60).status == 200
        primary.kill()
        standby.execute("SELECT pg_promote()")
        wait_until(lambda: client.post(NewPlant(3, "c")).status == 200)
        client.close()

        assert sorted(stored_plants(database)) == [1, 2, 3]
        assert any("wait for the synchronous standby was cancelled" in line for line in service.log)


def test_the_service_reconnects_after_postgresql_restarts_under_load_and_nothing_is_lost(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with (
        Server(postgres_programs, "restarted") as server,
        Service(tmp_path, database=server.url()) as service,
    ):
        with loaded(service) as loads:
            for with_signal in (signal.SIGINT, signal.SIGQUIT, signal.SIGINT):
                server.stop(with_signal)
                server.start()
                loads[0].wait_for_more(seconds=RECOVERY_SECONDS)

        assert_nothing_is_lost(server.url(), loads)


def test_connections_terminated_under_load_are_reopened_and_nothing_is_lost(
    tmp_path: Path, database: str
) -> None:
    cut = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'plantstore' AND pid <> pg_backend_pid()
    """
    with Service(tmp_path) as service:
        with loaded(service) as loads:
            for _ in range(20):
                execute(database, cut)
                loads[0].wait_for_more(20, RECOVERY_SECONDS)

        assert_nothing_is_lost(database, loads)


def test_requests_are_503_while_postgresql_hangs_and_succeed_when_it_resumes(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with Server(postgres_programs, "hanging") as server:
        database = server.url() + "?connect_timeout=2&options=-cstatement_timeout%3D200"
        with Service(tmp_path, database=database) as service:
            with loaded(service) as loads:
                server.signal_all(signal.SIGSTOP)
                loads[0].wait_until(lambda: 503 in loads[0].refused)
                wait_until(lambda: readiness(service) == 503)
                server.signal_all(signal.SIGCONT)
                loads[0].wait_for_more(seconds=RECOVERY_SECONDS)
                wait_until(lambda: readiness(service) == 200)

            assert_nothing_is_lost(server.url(), loads)


@pytest.mark.parametrize(("cut", "stored"), [("before", {1}), ("after", {1, 2})])
def test_a_connection_lost_during_a_commit_is_503_and_a_retry_is_safe(
    tmp_path: Path,
    postgres_programs: Programs,
    cut: Literal["before", "after"],
    stored: set[int],
) -> None:
    with (
        Server(postgres_programs, f"cut_{cut}") as server,
        Proxy(server.port) as proxy,
    ):
        database = f"postgresql://postgres@127.0.0.1:{proxy.port}/postgres"
        with Service(tmp_path, database=database) as service:
            client = service.client(service.token())

            # Repeat until the cut hits the writer's commit, not a lookup of the token.
            message = ""
            while "may or may not" not in message:
                assert client.post(NewPlant(1, "a")).status == 200
                proxy.cut = cut
                answer = client.post(NewPlant(2, "b"))
                message = answer.json["message"]

            assert (answer.status, answer.json["error"]) == (503, 5003)
            assert answer.headers["retry-after"] == "1"
            assert "may or may not be made, and sending it again is safe" in answer.json["message"]
            assert "127.0.0.1" not in answer.json["message"], "the message shows the server address"
            assert stored_plants(server.url()).keys() == stored
            assert client.post(NewPlant(2, "b")).status == 200
            client.close()
        assert stored_plants(server.url()) == {1: NewPlant(1, "a"), 2: NewPlant(2, "b")}


def test_a_change_that_never_reached_postgresql_is_reported_as_not_done(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with Server(postgres_programs, "gone") as server:
        with Service(tmp_path, database=server.url()) as service:
            client = service.client(service.token())
            assert client.post(NewPlant(1, "a")).status == 200
            server.stop()

            messages = [client.post(NewPlant(2, "b")).json["message"] for _ in range(5)]

            assert messages[-1] == "The database cannot be reached; nothing was done"
            client.close()
        assert any("commit failed" in line for line in service.log)


def test_a_worker_that_dies_while_postgresql_is_down_is_replaced_when_it_is_back(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with (
        Server(postgres_programs, "away") as server,
        Service(tmp_path, "--workers", "2", database=server.url()) as service,
    ):
        token = service.token()
        server.stop()
        for pid in service.children():
            os.kill(pid, signal.SIGKILL)
        wait_until(lambda: any("cannot be reached" in line for line in service.log))
        server.start()

        client = service.client(token)
        assert client.post(NewPlant(1, "a")).status == 200
        client.close()


def test_ten_instances_start_at_once_on_an_empty_database(tmp_path: Path, database: str) -> None:
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(10) as pool:
        services = list(pool.map(lambda _: stack.enter_context(Service(tmp_path)), range(10)))
        token = services[0].token()
        for number, service in enumerate(services):
            client = service.client(token)
            assert client.post(NewPlant(number, "a")).status == 200
            client.close()

    assert sum("plst_" in service.said for service in services) == 1
    assert stored_plants(database).keys() == set(range(10))


def test_three_instances_that_create_the_same_ids_store_each_id_once(
    tmp_path: Path, database: str
) -> None:
    barrier = threading.Barrier(3)

    def create(client: Client, name: str) -> list[int]:
        barrier.wait()
        return [client.post(NewPlant(id_, name)).status for id_ in range(200)]

    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        services = [stack.enter_context(Service(tmp_path)) for _ in range(3)]
        token = services[0].token()
        clients = [service.client(token) for service in services]
        statuses = list(pool.map(create, clients, "abc"))
        for client in clients:
            client.close()

    stored = stored_plants(database)
    for id_, answers in enumerate(zip(*statuses, strict=True)):
        assert sorted(answers) == [200, 400, 400]
        assert stored[id_].name == "abc"[answers.index(200)]
