"""The container image: built, run without privileges, stopped, and started again."""

import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from project.test_commands_of_docs import Reader, commands, is_as_shown
from support.containers import IMAGE, LIMITS, TOOLS, Containers, Running, containers
from support.postgres import Programs, Server

PAGE = "docs/container.md"

MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which makes the base image"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} of Debian"),
]

ROSA = NewPlant(1, "Rosa × damascena")


@pytest.fixture(scope="module")
def made() -> Iterator[Containers]:
    """Build the image on a new Debian base, or on the base in PLANTSTORE_TEST_BASE."""
    with containers() as made:
        made.make_image(os.environ.get("PLANTSTORE_TEST_BASE") or made.make_base())
        yield made


@pytest.fixture
def running(made: Containers) -> Iterator[Running]:
    with made.serving() as running:
        yield running


@pytest.fixture(scope="module")
def shared(made: Containers) -> Iterator[Running]:
    """Return a container that several tests share and do not change."""
    with made.serving() as running:
        yield running


def test_a_container_stops_gracefully_and_has_its_plant_after_the_next_start(
    made: Containers, running: Running
) -> None:
    stored = running.client.post(ROSA)
    made.podman("kill", "--signal=TERM", running.name)
    status = made.podman("wait", running.name)
    unhealthy = made.try_podman("healthcheck", "run", running.name)
    made.podman("start", running.name)
    made.wait_until_healthy(running.name)
    running.client.close()  # its connection belongs to the stopped process

    assert stored.status == 200
    assert status == "0\n"
    assert unhealthy.returncode != 0
    assert running.client.post(ROSA).status == 200
    assert running.client.post(NewPlant(1, "Abies")).status == 400


def test_the_container_has_no_privileges_and_a_read_only_root_file_system(
    made: Containers, shared: Running
) -> None:
    said = made.podman("exec", shared.name, "cat", "/proc/1/status")
    status = dict(re.findall(r"(\w+):\t(.*)", said))
    refused = made.try_podman("exec", shared.name, "touch", "/opt/plantstore/new")

    assert status["Uid"].split() == status["Gid"].split() == ["10001"] * 4
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert "Read-only file system" in refused.stderr


@pytest.mark.parametrize("module", ["pip", "hatchling"])
def test_the_image_contains_no_tool_that_only_the_build_needs(
    made: Containers, shared: Running, module: str
) -> None:
    result = made.try_podman("exec", shared.name, "python", "-c", f"import {module}")

    assert f"No module named '{module}'" in result.stderr


def test_no_token_is_in_the_log_of_a_container(made: Containers, shared: Running) -> None:
    log = made.log(shared.name)

    assert "Serving sqlite:////data/plants.db on http://0.0.0.0:" in log
    assert "There are no tokens yet, so all requests are refused." in log
    assert "plst_" not in log


def test_several_workers_serve_in_a_container(made: Containers) -> None:
    with made.serving("--env=PLANTSTORE_WORKERS=2") as running:
        answer = running.client.post(ROSA)
        made.podman("stop", "--time=60", running.name)
        status = made.podman("wait", running.name)

    assert (answer.status, status) == (200, "0\n")


def test_a_container_connects_to_postgresql_with_the_password_in_pgpassword(
    made: Containers, postgres_programs: Programs
) -> None:
    password = "p@ss/w%rd:"  # in a URL it would have to be percent-encoded
    with Server(postgres_programs, "with_passwords") as server:
        server.execute(f"CREATE ROLE plantstore LOGIN PASSWORD '{password}'")
        server.execute("CREATE DATABASE plantstore OWNER plantstore")
        rules = "host all postgres 127.0.0.1/32 trust\nhost all all 127.0.0.1/32 scram-sha-256\n"
        (server.data / "pg_hba.conf").write_text(rules, encoding="ascii")
        server.execute("SELECT pg_reload_conf()")
        url = f"postgresql://plantstore@127.0.0.1:{server.port}/plantstore"
        variables = [f"--env=PLANTSTORE_DATABASE={url}", f"--env=PGPASSWORD={password}"]
        with made.serving(*variables) as running:
            answer = running.client.post(ROSA)
            made.podman("stop", "--time=60", running.name)
            status = made.podman("wait", running.name)

    assert (answer.status, status) == (200, "0\n")


def test_a_command_in_a_second_container_works_beside_the_service(
    made: Containers, running: Running
) -> None:
    running.client.post(ROSA)

    assert "Plants: 1," in made.podman(*running.beside, IMAGE, "check")
    assert "Plants: 1," in made.podman(*running.beside, IMAGE, "backup", "copy.db")


def test_a_command_in_a_second_container_notices_lost_files(
    made: Containers, running: Running
) -> None:
    made.podman("exec", running.name, "rm", "/data/plants.db-shm")

    result = made.try_podman(*running.beside, IMAGE, "check")
    answer = running.client.post(ROSA)

    assert result.returncode == 1
    assert "in use by another process" in result.stderr
    assert (answer.status, answer.json["error"]) == (503, 5003)


def test_the_commands_of_the_container_page_work_in_order(made: Containers, tmp_path: Path) -> None:
    shown = [each for each in commands(PAGE) if re.match("podman|curl", each.text)]
    assert shown

    with Reader(tmp_path, str) as reader:
        for name, value in made.variables.items():
            reader.run(f"export {name}={value}")
        # Without systemd, Podman warns that nothing runs the health check periodically.
        reader.run('podman() { command podman --log-level=fatal "$@"; }')
        for command in shown:
            text = command.text.replace("podman run", " ".join(("podman run", *LIMITS)))
            text = text.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{made.port}")
            printed = reader.run(text.replace("plst_…", reader.token))

            assert reader.status == 0, f"{command.text} printed {printed}"
            is_right = not command.shown or is_as_shown(printed, command.shown)
            assert is_right, f"{command.text} printed {printed}"
            reader.token = "".join(re.findall(r"plst_\w+", printed)) or reader.token
            if re.match("podman (run|start)", command.text):
                made.wait_until_healthy("plantstore")
