"""Error messages of commands when PostgreSQL support, the server or the schema is missing."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

import plantstore
from plantstore.plants import NewPlant
from support.command import run
from support.postgres import Databases
from support.service import Service

pytestmark = pytest.mark.engines("postgres")


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
    done = subprocess.run(
        [sys.executable, "-c", program, "serve", "--database", "postgresql://h/d"],
        cwd=tmp_path,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    command = "make postgres" if is_checkout else "pip install 'plantstore[postgres]'"
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == f"plantstore: PostgreSQL support is not installed: run {command}\n"


@pytest.mark.parametrize("command", ["serve", "token list", "import plants.csv", "export", "check"])
def test_an_unreachable_server_is_a_one_line_error_without_the_password(
    tmp_path: Path, command: str
) -> None:
    (tmp_path / "plants.csv").write_text("id,name\n1,a\n", encoding="utf-8")
    database = "postgresql://ann:secret@127.0.0.1:1/garden"

    done = run(tmp_path, *command.split(), env=os.environ | {"PLANTSTORE_DATABASE": database})

    assert done.returncode == 1
    [line] = done.stderr.splitlines()
    assert line.startswith("plantstore: The database cannot be reached: ")
    assert "Connection refused" in line
    assert "secret" not in line


def test_without_permission_to_migrate_an_empty_database_is_an_error_that_names_the_migrate_command(
    tmp_path: Path, databases: Databases
) -> None:
    """No output shows the password in the URL."""
    database = databases.new().replace("postgres@", "postgres:secret@")
    env = os.environ | {"PLANTSTORE_DATABASE": database, "PLANTSTORE_MIGRATE": "false"}

    for command in ("serve", "token revoke a", "token list"):
        refused = run(tmp_path, *command.split(), env=env)
        assert refused.returncode == 1
        assert "is empty; run `plantstore migrate`" in refused.stderr
        assert "secret" not in refused.stderr
    migrated = run(tmp_path, "migrate", env=env)
    assert (migrated.returncode, migrated.stderr) == (0, "")
    assert migrated.stdout.startswith("The schema of postgresql://127.0.0.1")
    assert migrated.stdout.endswith(" is up to date\n")
    assert "secret" not in migrated.stdout
    assert run(tmp_path, "token", "create", "a", env=env).returncode == 0
    with Service(tmp_path, "--no-migrate", database=database) as service:
        client = service.client(service.token())
        assert client.post(NewPlant(1, "a")).status == 200
        client.close()
    assert "secret" not in service.said + "".join(service.log)


def test_the_backup_command_names_pg_dump_and_creates_no_file(tmp_path: Path) -> None:
    run(tmp_path, "migrate")

    done = run(tmp_path, "backup", "copy.db")

    assert done.returncode == 2
    assert "pg_dump" in done.stderr
    assert done.stderr.count("\n") == 1
    assert not list(tmp_path.iterdir())
