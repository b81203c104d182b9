"""Commands on PostgreSQL: what is missing, and a role that uses the tables of another role."""

import os
import sys
from pathlib import Path

import pytest

import plantstore
from plantstore.plants import NewPlant
from support.command import call, run, run_program
from support.postgres import Databases, Programs, Server
from support.service import serving

pytestmark = pytest.mark.engines("postgres")

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")
ADVICE = "; run plantstore migrate --grant-to ROLE as the owner"


@pytest.mark.parametrize("is_checkout", [True, False])
def test_without_the_postgres_extra_the_error_says_what_to_install(
    tmp_path: Path,
    is_checkout: bool,  # noqa: FBT001
) -> None:
    packages = tmp_path / "lib/python/site-packages"
    packages.mkdir(parents=True)
    (packages / "plantstore").symlink_to(Path(plantstore.__file__).parent)
    env = os.environ | ({} if is_checkout else {"PYTHONPATH": str(packages)})
    program = (
        "import sys; sys.modules['psycopg'] = None\n"
        "from plantstore.cli import main; sys.exit(main())"
    )
    serve = ("serve", "--database", "postgresql://h/d")
    done = run_program(sys.executable, "-c", program, *serve, cwd=tmp_path, env=env)

    wheel = f"plantstore-{plantstore.__version__}-py3-none-any.whl"
    command = "make postgres" if is_checkout else f"pip install '{wheel}[postgres]'"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"plantstore: PostgreSQL support is not installed: run {command}\n"


def test_without_permission_to_migrate_an_empty_database_is_an_error_that_names_the_migrate_command(
    tmp_path: Path, databases: Databases, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No output shows the password in the URL."""
    database = databases.new().replace("postgres@", "postgres:secret@")
    monkeypatch.setenv("PLANTSTORE_DATABASE", database)
    monkeypatch.setenv("PLANTSTORE_MIGRATE", "false")

    refused = [
        run(tmp_path, "serve"),
        call(tmp_path, "token", "revoke", "a"),
        call(tmp_path, "token", "list"),
    ]
    migrated = call(tmp_path, "migrate")
    created = call(tmp_path, "token", "create", "a")
    with serving(tmp_path) as (service, client):
        assert client.post(PLANT).status == 200

    for done in refused:
        assert done.returncode == 1
        assert "is empty; run `plantstore migrate`" in done.stderr
        assert "secret" not in done.stderr
    assert (migrated.returncode, created.returncode) == (0, 0)
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
