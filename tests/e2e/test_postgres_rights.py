"""A service whose role uses the tables of another role."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from plantstore.plants import NewPlant
from support.command import run
from support.postgres import Programs, Server, execute, wait_until
from support.service import Service

pytestmark = pytest.mark.engines("postgres")

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")
ADVICE = "; run plantstore migrate --grant-to ROLE as the owner"


class Roles(NamedTuple):
    """The URL of a database for the owner of its tables, and for the role of the service."""

    owner: str
    user: str


@pytest.fixture
def roles(postgres_programs: Programs) -> Iterator[Roles]:
    with Server(postgres_programs, "rights") as server:
        for role in ("owner", "user"):
            server.execute(f'CREATE ROLE "{role}" LOGIN')
        server.execute("CREATE DATABASE garden OWNER owner")
        urls = (server.url("garden").replace("postgres@", f"{role}@") for role in Roles._fields)
        yield Roles(*urls)


def env(database: str) -> dict[str, str]:
    return os.environ | {"PLANTSTORE_DATABASE": database}


def test_a_role_uses_the_tables_of_another_role_after_migrate_has_granted_the_rights(
    tmp_path: Path, roles: Roles
) -> None:
    assert run(tmp_path, "migrate", env=env(roles.owner)).returncode == 0
    refused = run(tmp_path, "serve", "--no-migrate", "--port", "0", env=env(roles.user))
    granted = run(tmp_path, "migrate", "--grant-to", "user", env=env(roles.owner))
    # As after an upgrade that adds tables.
    execute(roles.owner, 'REVOKE ALL ON totals, plantstore_markers FROM "user"')

    with Service(tmp_path, "--no-migrate", database=roles.user) as service:
        client = service.client(service.token())
        not_ready = client.send("GET", "/readyz")
        not_stored = client.post(PLANT)
        again = run(tmp_path, "migrate", "--grant-to", "user", env=env(roles.owner))
        stored = client.post(PLANT)
        ready = client.send("GET", "/readyz")
        answers = [
            client.send_record("PUT", "/plants/1", "Quercus alba L.", "Quercus"),
            client.send("GET", "/plants/1"),
            client.send("GET", "/plants?q=que"),
            client.send("GET", "/plants", headers={"Prefer": "count=exact"}),
            client.send("GET", "/plants.csv"),
            client.send("POST", "/ids"),
            client.send("GET", "/token"),
            client.send("DELETE", "/plants/1"),
        ]
        client.close()
        commands = [
            run(tmp_path, *command.split(), env=env(roles.user)).returncode
            for command in ("token create a", "token list", "token revoke a", "export", "stats")
        ]
        wait_until(lambda: any('"ready again"' in line for line in service.log))

    assert refused.returncode == 1
    assert f": permission denied for table plantstore_migrations{ADVICE}" in refused.stderr
    assert (granted.returncode, again.returncode) == (0, 0)
    missing = ", ".join(
        f"{right} on {table}"
        for table in ("totals", "plantstore_markers")
        for right in ("SELECT", "INSERT", "UPDATE")
    )
    assert (not_ready.status, not_stored.status) == (503, 503)
    assert not_ready.json["message"] == (
        f"The database cannot be written: the role lacks {missing}{ADVICE}"
    )
    denied = f"The database cannot be written: permission denied for table totals{ADVICE}"
    assert not_stored.json["message"].startswith(denied)
    logged = [json.loads(line) for line in service.log if line.startswith("{")]
    reasons = {line["event"]: line["reason"] for line in logged if "reason" in line}
    assert reasons["not ready"].startswith(not_ready.json["message"])
    assert reasons["commit failed"].startswith(denied)
    assert (stored.status, ready.status) == (200, 200)
    assert [answer.status for answer in answers] == [200] * 7 + [204]
    assert commands == [0] * 5


def test_an_unknown_role_is_a_one_line_error(tmp_path: Path) -> None:
    done = run(tmp_path, "migrate", "--grant-to", "nobody's")

    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        'plantstore: There is no role "nobody\'s"; create it first, with CREATE ROLE\n'
    )
