"""The clients in `examples`, against a running service."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import playwright
import pytest

from plantstore.changes import Deletion, Upsert
from plantstore.plants import NewPlant
from support.command import run_program
from support.service import PLANTSTORE, Client, Service, stored_plants

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


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ("env PLANTSTORE_RATE_PER_TOKEN=2/second", "rate_exceeded"),
        # A hundred open files are for other things than connections. Node opens two.
        ("prlimit --nofile=102", "too_many_connections"),
    ],
)
@pytest.mark.parametrize(("program", "client"), CLIENTS, ids=["python", "node"])
def test_a_client_tries_again_if_it_is_too_fast_or_the_service_is_busy(
    tmp_path: Path, program: str, client: str, limit: str, reason: str
) -> None:
    file = tmp_path / "one.csv"
    file.write_text("id,name\n1,a\n")
    with Service(tmp_path, command=[*limit.split(), *PLANTSTORE]) as service:
        service.change(*(NewPlant(id_, "a") for id_ in range(10_000, 10_250)))
        with service.client(None) as first, service.client(None) as second:  # all places
            first.send("GET", "/healthz")
            second.send("GET", "/healthz")
            process = start_client(service, program, client, file)
            service.wait_for_log(reason)

        printed = output_of(process)

    assert "1000001 Abies balsamea (L.) Mill. Abies" in printed


@pytest.mark.parametrize(
    ("program", "example"),
    [*CLIENTS, (sys.executable, "follow.py"), (sys.executable, "undo_import.py")],
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


def last_number(client: Client) -> int:
    return int(client.send("GET", "/changes?after=now").headers["changes-after"])


def test_an_import_is_taken_back_and_what_others_changed_stays(tmp_path: Path) -> None:
    file = tmp_path / "plants.csv"
    file.write_text("id,name\n1,new\n2,new\n3,same\n4,new\n5,new\n6,new\n8,new\nx,y\n")
    before = [
        NewPlant(2, "old", "tag"),
        NewPlant(3, "same"),
        NewPlant(6, "old"),
        NewPlant(9, "old"),
    ]
    with Service(tmp_path) as service, service.client(service.token(name="reader")) as reader:
        first = last_number(reader)
        service.change(*before)
        command = [sys.executable, str(EXAMPLES / "undo_import.py")]
        command += [f"http://127.0.0.1:{service.port}", str(file)]
        env = os.environ | {"PLANTSTORE_TOKEN": service.token()}
        pipe = subprocess.PIPE
        options: dict[str, Any] = {"env": env, "stdout": pipe, "stderr": pipe, "text": True}
        imported = output_of(subprocess.Popen(command, **options))
        by_others = [Upsert(NewPlant(id_, "theirs")) for id_ in (4, 6, 7)]
        service.change(*by_others, Upsert(NewPlant(6, "new")), Deletion(9), Deletion(5))
        # As if the others had made their changes during the export and the import.
        undo = tmp_path / "plants.csv.undo"
        state = json.loads(undo.read_text())
        undo.write_text(json.dumps(state | {"export": first, "after": last_number(reader)}))
        service.change(Upsert(NewPlant(8, "later")))

        undone = output_of(subprocess.Popen([*command, "undo"], **options))

    assert "'stored': 4, 'already_stored': 1, 'replaced': 2" in imported
    as_before = [f"{id_} is as before" for id_ in (1, 2, 6)]
    assert set(undone.splitlines()) == {*as_before, "8 has been changed since, and stays as it is"}
    assert stored_plants(service.database) == {
        plant.id: plant
        for plant in (
            *before[:2],
            NewPlant(4, "theirs"),
            NewPlant(6, "theirs"),
            NewPlant(7, "theirs"),
            NewPlant(8, "later"),
        )
    }
