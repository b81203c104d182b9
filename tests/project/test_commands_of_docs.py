"""Runs the commands shown in the README, the tutorial and the examples, as a reader would.

Of docs/postgresql.md, it runs what one PostgreSQL server can test. `make cluster` starts a whole
cluster from the files on that page.
"""

import os
import re
import shlex
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from cluster.page import PAGE, block, on_loopback, url_of_page
from plantstore.plants import NewPlant
from plantstore.storage.postgres.primary import parse_url
from support.command import output_of
from support.postgres import Programs, Server, connected, wait_until
from support.reader import Reader, commands, is_as_shown
from support.service import PLANTSTORE, opened, stored_plants

ROOT = Path(__file__).parents[2]

PAGES = ("README.md", "docs/getting-started.md", "docs/api.md")


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_work_in_order_and_print_the_output_it_shows(
    page: str, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    shown = commands(page)
    assert shown

    with Reader(tmp_path, lambda: request.getfixturevalue("databases").new()) as reader:
        for command, following in zip(shown, [*shown[1:], None], strict=True):
            printed = reader.follow(command.text)

            if command.shown:
                assert is_as_shown(printed, command.shown), f"{command.text} printed {printed}"
            # A command may fail only if `echo $?` follows, whose output is compared.
            if following is None or following.text != "echo $?":
                assert reader.status == 0, f"{command.text} printed {printed}"
        written = [path.name for path in tmp_path.iterdir() if not path.is_symlink()]

    # Otherwise, a reader would have them in a commit, and in the source distribution.
    git = ("git", f"--git-dir={tmp_path}/git", f"--work-tree={ROOT}")
    output_of(*git, "init", "--quiet")
    assert sorted(written) == sorted(output_of(*git, "check-ignore", *written, cwd=ROOT).split())


# docs/postgresql.md

DATA = "/var/lib/postgresql/18/garden"
MOMENT = "2026-11-22 12:00:00+00"


def archive_command(folder: Path) -> str:
    """Return the archive command of the page, for an archive in this folder."""
    patroni: Any = yaml.safe_load(block("patroni.yml"))
    command = patroni["bootstrap"]["dcs"]["postgresql"]["parameters"]["archive_command"]
    return str(command).replace("/srv/archive", str(folder))


def test_the_backup_commands_of_the_cluster_page_restore_a_point_in_time(
    postgres_programs: Programs,
) -> None:
    archive, backups = (postgres_programs.folder / name for name in ("archive", "backups"))
    for folder in (archive, backups):
        subprocess.run(["mkdir", folder], check=True, **postgres_programs.as_user)
    archiving = {"archive_mode": "on", "archive_command": archive_command(archive)}
    server = Server(postgres_programs, "garden", **archiving)
    places = {
        "/srv/archive": str(archive),
        "/srv/backup": str(backups),
        DATA: str(server.data),
        "postgresql://replicator@two:5432": server.url(),
    }

    def follow(text: str) -> None:
        if text.startswith("pg_verifybackup "):
            return  # pg_verifybackup of the development package always crashes
        for shown, ours in places.items():
            text = text.replace(shown, ours)
        user = {} if text.startswith("plantstore ") else postgres_programs.as_user
        text = re.sub("^plantstore ", f"{shlex.join(PLANTSTORE)} ", text)
        path = f"{postgres_programs.path}:{os.environ['PATH']}"
        env = postgres_programs.as_user["env"] | {"PATH": path, "PLANTSTORE_DATABASE": server.url()}
        subprocess.run(["bash", "-c", text], check=True, timeout=60, **user | {"env": env})

    section = PAGE.read_text(encoding="utf-8").split("\n## Backup\n")[1].split("\n## ")[0]
    commands = re.findall(r"^ *\$ (.*)$", section, re.MULTILINE)
    restore = next(n for n, text in enumerate(commands) if text.startswith("mv "))
    with server:
        with (server.data / "postgresql.conf").open("a", encoding="utf-8") as file:
            file.write(f"port = {server.port}\nunix_socket_directories = ''\n")
        with opened(server.url()) as store:
            store.apply_changes([NewPlant(1, "before the backup")])
            for text in commands[:restore]:
                follow(text)
            store.apply_changes([NewPlant(2, "before the moment")])
            [[places[MOMENT]]] = server.execute("SELECT now()::text")
            store.apply_changes([NewPlant(3, "after the moment")])
        [[last]] = server.execute("SELECT pg_walfile_name(pg_switch_wal())")
        wait_until((archive / last).exists)
    try:
        for text in commands[restore:]:
            follow(text)

        assert sorted(stored_plants(server.url())) == [1, 2]
    finally:
        postgres_programs.run("pg_ctl", "stop", "--pgdata", str(server.data))


@pytest.mark.parametrize(("archived", "status"), [(None, 0), ("same", 0), ("other", 1)])
def test_the_archive_command_accepts_an_archived_segment_only_if_it_is_identical(
    tmp_path: Path, archived: str | None, status: int
) -> None:
    (tmp_path / "segment").write_text("same", encoding="utf-8")
    if archived is not None:
        (tmp_path / "00000001").write_text(archived, encoding="utf-8")
    command = archive_command(tmp_path).replace("%p", f"{tmp_path}/segment")
    command = command.replace("%f", "00000001")

    done = subprocess.run(["sh", "-c", command], check=False, capture_output=True)

    assert done.returncode == status
    assert (tmp_path / "00000001").read_text(encoding="utf-8") == (archived or "same")


def test_the_database_url_of_the_cluster_page_finds_the_primary_and_sets_the_timeouts(
    postgres_programs: Programs,
) -> None:
    with Server(postgres_programs, "primary") as server:
        url = on_loopback(url_of_page(), {"one:5432": 1, "two:5432": server.port, "three:5432": 1})
        for statement in block("garden.sql").split(";")[:-1]:
            server.execute(statement)

        with connected(url) as connection:
            found = connection.execute("SHOW statement_timeout").fetchall()

    assert found == [("4s",)]
    assert connection.wait_seconds == 6
    assert {"connect_timeout=2", "tcp_user_timeout=5000"} <= set(parse_url(url).split())
