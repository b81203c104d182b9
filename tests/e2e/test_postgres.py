"""The service and the commands on PostgreSQL: a failover, roles, and what is missing.

`make cluster` fails servers over many times. Every acknowledged plant must be stored, and every
stored plant must have been sent. Clients must get only 200, 400 and 503. The service must recover
by itself when the server is back.
"""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import plantstore
from plantstore.commit.imports import BATCH_ROWS_MAX
from plantstore.plants import NewPlant
from plantstore.settings import Settings
from plantstore.storage import open_store
from support.command import call, run, run_program
from support.load import Load
from support.postgres import Databases, Programs, Server, running_pair, url_of, wait_until
from support.service import PLANTSTORE, Service, opened, serving, stored_plants

pytestmark = pytest.mark.engines("postgres")

RECOVERY_SECONDS = 10
PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")
ADVICE = "; run plantstore migrate --grant-to ROLE as the owner"


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


def readiness(service: Service) -> int:
    with service.client(None) as client:
        return client.send("GET", "/readyz").status


def test_a_service_starts_though_too_few_standbys_let_it_store_no_first_token(
    tmp_path: Path, database: str
) -> None:
    with contextlib.closing(open_store(database)) as store:
        store.keep_changes(Settings().changes_keep)

    with Service(tmp_path, "--standbys-min", "1", database=database) as service:
        pass

    assert any("There are no tokens yet" in line for line in service.log)


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

        stored = stored_plants(database)
        for load in loads:
            assert set(load.refused) == {503}
            assert load.acknowledged.items() <= stored.items(), "an acknowledged plant is missing"
        sent = {id_: plant for load in loads for id_, plant in load.sent.items()}
        assert stored.items() <= sent.items(), "a plant is stored that no client sent"


def test_an_import_whose_database_goes_away_says_how_it_is_undone(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    row = '{{"id":{0},"name":"Rosa"}}\n'
    with contextlib.ExitStack() as servers:
        url = servers.enter_context(Server(postgres_programs, "lost")).url()
        with opened(url) as store:
            store.keep_changes(7)
            importing = subprocess.Popen(
                [*PLANTSTORE, "import", "-", "--format", "jsonl", "--database", url],
                cwd=tmp_path,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
            )
            assert importing.stdin is not None
            importing.stdin.write("".join(map(row.format, range(5 * BATCH_ROWS_MAX))))
            importing.stdin.flush()
            wait_until(lambda: store.count_plants() > 0)
        servers.close()
        _, complained = importing.communicate(row.format(-1), timeout=60)

    assert importing.returncode == 1
    assert "To undo: plantstore undo" in complained
    assert "Traceback" not in complained


def test_the_log_and_the_metrics_show_the_primary_and_its_standbys(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    options = ("--standbys-min", "1", "--workers", "2")
    with (
        running_pair(postgres_programs) as (primary, standby),
        serving(tmp_path, *options, database=primary.url()) as (service, client),
    ):
        server = f"127.0.0.1:{primary.port}"
        assert client.post(PLANT).status == 200
        metric = "plantstore_synchronous_standbys"
        assert client.total(metric, server=server) == 1
        assert client.total("plantstore_last_commit_timestamp_seconds") > 0

        standby.stop()
        primary.use_names("")
        wait_until(lambda: client.total(metric) == 0)
        assert client.post(NewPlant(2, "b")).json["error"] == 5003
        assert client.send("GET", "/plants/1").status == 200
        wait_until(lambda: readiness(service) == 503)

    told = [(line["server"], line["standbys"]) for line in service.logged("database server")]
    assert {*told} >= {(server, 1), (server, 0)}
    reasons = [json.loads(line).get("reason", "") for line in service.log if '"reason"' in line]
    assert any(f"{server}: its commits wait for 0" in reason for reason in reasons)
    assert all(len(reason) < 300 for reason in reasons)


def test_three_instances_that_start_at_once_print_one_token(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(3) as pool:
        services = list(pool.map(lambda _: stack.enter_context(Service(tmp_path)), range(3)))

    assert sum("plst_" in service.said for service in services) == 1


@pytest.mark.parametrize("is_checkout", [True, False])
def test_without_the_postgres_extra_the_error_says_what_to_install(
    tmp_path: Path, *, is_checkout: bool
) -> None:
    packages = tmp_path / "lib/python/site-packages"
    packages.mkdir(parents=True)
    (packages / "plantstore").symlink_to(Path(plantstore.__file__).parent)
    env = os.environ | ({} if is_checkout else {"PYTHONPATH": str(packages)})
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from plantstore.cli import main; sys.exit(main())"
    )
    serve = ("serve", "--port", "0", "--database", "postgresql://h/d")
    done = run_program(sys.executable, "-c", program, *serve, cwd=tmp_path, env=env)

    wheel = f"plantstore-{plantstore.__version__}-py3-none-any.whl"
    command = "make postgres" if is_checkout else f"pip install '{wheel}[postgres]'"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"plantstore: PostgreSQL support is not installed: run {command}\n"


def test_an_empty_database_that_may_not_be_migrated_is_an_error_that_names_the_command(
    tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No output shows the password in the URL."""
    database = databases.new().replace("postgres@", "postgres:secret@")
    monkeypatch.setenv("PLANTSTORE_DATABASE", database)
    monkeypatch.setenv("PLANTSTORE_MIGRATE", "false")

    refused = [run(tmp_path, "serve", "--port", "0"), call(tmp_path, "token", "list")]
    migrated = call(tmp_path, "migrate")
    with serving(tmp_path) as (service, client):
        assert client.post(PLANT).status == 200

    for done in refused:
        assert done.returncode == 1
        assert "is empty; run `plantstore migrate`" in done.stderr
        assert "secret" not in done.stderr
    assert migrated.stderr.startswith("Created the database postgresql://127.0.0.1")
    assert migrated.stdout.startswith("The schema of postgresql://127.0.0.1")
    assert migrated.stdout.endswith(" is up to date\n")
    assert "secret" not in migrated.stdout + migrated.stderr + service.said + "".join(service.log)


def test_a_role_uses_the_tables_of_another_role_after_migrate_has_granted_the_rights(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with Server(postgres_programs, "rights") as server:
        for role in ("owner", "user"):
            server.execute(f'CREATE ROLE "{role}" LOGIN')
        server.execute("CREATE DATABASE garden OWNER owner")
        owner, user = (
            server.url("garden").replace("postgres@", f"{role}@") for role in ("owner", "user")
        )
        assert call(tmp_path, "migrate", "--database", owner).returncode == 0
        refused = run(tmp_path, "serve", "--no-migrate", "--port", "0", "--database", user)
        granted = call(tmp_path, "migrate", "--grant-to", "user", "--database", owner)
        with serving(tmp_path, "--no-migrate", database=user) as (_, client):
            stored = client.post(PLANT)

    assert refused.returncode == 1
    assert f": permission denied for table plantstore_migrations{ADVICE}" in refused.stderr
    assert (granted.returncode, stored.status) == (0, 200)
