"""The clients in `examples`, against a running service."""

import os
import subprocess
import sys
from pathlib import Path

import playwright
import pytest

from plantstore.changes import Deletion, Upsert
from plantstore.plants import NewPlant
from support.command import run_program
from support.events import copied, following
from support.postgres import wait_until
from support.service import PLANTSTORE, Service, stored_plants

EXAMPLES = Path(__file__).parents[2] / "examples"
NODE = Path(playwright.__file__).parent / "driver/node"
CLIENTS = [(sys.executable, "client.py"), (str(NODE), "client.mjs")]


def start_client(service: Service, program: str, client: str, file: Path) -> subprocess.Popen[str]:
    command = [program, str(EXAMPLES / client), f"http://127.0.0.1:{service.port}", str(file)]
    env = os.environ | {"PLANTSTORE_TOKEN": service.token(name=client)}
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, stdout=pipe, stderr=pipe, text=True)


def output_of(process: subprocess.Popen[str]) -> str:
    with process:
        try:
            printed, complaint = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 0, complaint
    return printed


@pytest.mark.parametrize(("program", "client"), CLIENTS, ids=["python", "node"])
def test_a_client_imports_a_file_creates_a_plant_and_reads_all_pages(
    tmp_path: Path, program: str, client: str
) -> None:
    with Service(tmp_path) as service:
        service.change(*(NewPlant(id_, "a") for id_ in range(10_000, 10_250)))

        printed = output_of(
            start_client(service, program, client, EXAMPLES / "plants.csv")
        ).splitlines()

    ids = [int(line.split()[0]) for line in printed if line.split()[0].isdigit()]
    assert ids == sorted(stored_plants(service.database))
    assert len(ids) > 250
    assert ids[-1] == 1_000_001


@pytest.mark.parametrize(("program", "client"), CLIENTS, ids=["python", "node"])
def test_a_client_tries_again_if_it_is_too_fast_or_the_service_is_busy(
    tmp_path: Path, program: str, client: str
) -> None:
    file = tmp_path / "one.csv"
    file.write_text("id,name\n1,a\n")
    # A hundred open files are for other things than connections. Node opens two.
    limits = ["env", "PLANTSTORE_RATE_PER_TOKEN=2/second", "prlimit", "--nofile=102"]
    with Service(tmp_path, command=[*limits, *PLANTSTORE]) as service:
        service.change(*(NewPlant(id_, "a") for id_ in range(10_000, 10_250)))
        with service.client(None) as first, service.client(None) as second:  # all places
            first.send("GET", "/healthz")
            second.send("GET", "/healthz")
            process = start_client(service, program, client, file)
            service.wait_for_log("too_many_connections")

        printed = output_of(process)

    assert "1000001 Abies balsamea (L.) Mill. Abies" in printed
    assert service.has_logged("rate_exceeded")


@pytest.mark.parametrize(
    ("program", "example"),
    [*CLIENTS, (sys.executable, "follow.py")],
)
@pytest.mark.parametrize("is_complete", [False, True])
def test_an_example_without_its_arguments_or_its_token_says_how_to_run_it(
    program: str, example: str, *, is_complete: bool
) -> None:
    arguments = ["http://127.0.0.1:9", "plants.csv"] if is_complete else []
    env = {name: value for name, value in os.environ.items() if name != "PLANTSTORE_TOKEN"}

    done = run_program(program, EXAMPLES / example, *arguments, env=env)

    assert done.returncode == 1
    assert f"{example} http://HOST:PORT FILE" in done.stderr
    assert "Error" not in done.stderr


def test_a_follower_keeps_a_copy_that_survives_a_kill(tmp_path: Path) -> None:
    file = tmp_path / "copy.jsonl"
    with Service(tmp_path) as service:
        token = service.token()
        service.change(NewPlant(1, "Rosa × \u2028 damascena"), NewPlant(2, "b", "t"))
        with following(service.port, token, file):
            wait_until(lambda: len(copied(file)) == 2)
        service.change(Deletion(2), Upsert(NewPlant(1, "a")), NewPlant(3, "c"))

        with following(service.port, token, file):
            wait_until(lambda: copied(file) == [NewPlant(1, "a"), NewPlant(3, "c")])
