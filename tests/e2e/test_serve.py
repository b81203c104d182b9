"""The output, settings and errors of `plantstore serve`."""

import json
import re
import shlex
import socket
import subprocess
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.service import PLANTSTORE, Service, opened, stored_plants

PLANT = NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")


def refused(folder: Path, *command: str, status: int = 1, env: dict[str, str] | None = None) -> str:
    """Run a command that must fail; return the one line that it prints."""
    done = subprocess.run(
        [*PLANTSTORE, *command],
        cwd=folder,
        env=env,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (status, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("plantstore: ")
    return line


@pytest.mark.engines("sqlite", "postgres")
def test_the_printed_curl_stores_a_plant(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        assert service.process.stdout is not None
        printed = ""
        while "-d '" not in printed:
            printed += service.process.stdout.readline()
        command = printed[printed.index("curl") :].replace("\\\n", " ")
        done = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=60, check=True
        )

        assert done.stdout.startswith("HTTP/1.1 200 OK")
        assert done.stdout.endswith('{"name":"Abies balsamea (L.) Mill.","tag":"Abies"}')

    assert stored_plants(service.database) == {1: PLANT}
    [secret] = set(re.findall(r"plst_\w{36}", printed))
    assert not any(secret in line for line in service.log), "the log contains the secret"
    with opened(service.database) as store:
        assert secret not in repr(store.list_tokens()), "the store must have only its hash"


def test_a_misspelled_variable_is_one_warning_in_the_log(tmp_path: Path) -> None:
    command = ["env", "PLANTSTORE_WORKRES=3", *PLANTSTORE]
    with Service(tmp_path, "--workers", "2", command=command) as service:
        pass

    [line] = [json.loads(line) for line in service.log if "WORKRES" in line]
    assert line["event"] == "PLANTSTORE_WORKRES is not a setting; did you mean PLANTSTORE_WORKERS?"
    assert line["level"] == "warning"


def test_the_first_token_is_created_only_once(tmp_path: Path) -> None:
    with Service(tmp_path) as first:
        pass
    with Service(tmp_path) as second:
        pass

    assert "plst_" in first.said
    assert second.said == ""


def test_a_service_not_on_loopback_logs_how_to_create_a_token(tmp_path: Path) -> None:
    with Service(tmp_path, "--host", "0.0.0.0") as service:
        pass

    assert service.said == ""
    # The command needs no --database: this is the default.
    assert "plantstore token create NAME" in [line.strip() for line in service.log]


def test_the_service_listens_on_ipv6(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--host", "::1") as service,
        socket.create_connection(("::1", service.port)) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")

    assert f"http://[::1]:{service.port}/plants" in service.said


def test_a_port_in_use_is_a_one_line_error_and_creates_no_database(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]

        line = refused(tmp_path, "serve", "--port", str(port))

    assert f"port {port}: Address already in use; choose another port with --port" in line
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("options", "said", "status"),
    [
        (["--port", "x"], "--port", 2),
        (["--workers", "0"], "--workers", 2),
        (["--idle-seconds", "-1"], "--idle-seconds", 2),
        (["--nonsense"], "--nonsense", 2),
        (["--host", "no.such.host.invalid"], "no.such.host.invalid", 1),
        (["--database", "sqlite:///nowhere/plants.db"], "No such file", 1),
        (["--database", "sqlite:///garbage.db"], "not a database", 1),
    ],
)
def test_a_bad_setting_is_a_one_line_error(
    tmp_path: Path, options: list[str], said: str, status: int
) -> None:
    (tmp_path / "garbage.db").write_bytes(b"roses are red " * 1000)

    assert said in refused(tmp_path, "serve", "--port", "0", *options, status=status)


def test_an_error_in_an_environment_variable_names_the_variable(tmp_path: Path) -> None:
    env = {"PLANTSTORE_PORT": "x", "PATH": "/usr/bin:/bin"}

    assert "PLANTSTORE_PORT" in refused(tmp_path, "serve", status=2, env=env)


def test_a_plant_is_stored_while_its_neighbour_on_the_connection_is_refused(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        client = service.client(service.token())
        assert client.post(PLANT).status == 200
        assert client.post(NewPlant(1, "other")).json["error"] == 1004
        assert client.send("POST", "/plants", b" " * 65_537).status == 413
        assert client.post(NewPlant(2, "b")).status == 200
        assert client.send("HEAD", "/openapi.json").status == 200
        client.close()

    assert stored_plants(service.database) == {1: PLANT, 2: NewPlant(2, "b")}


def test_the_log_is_json_lines_when_stderr_is_not_a_terminal(tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        client = service.client(None)
        client.send("GET", "/")
        client.close()

    lines = [line for line in service.log if not line.startswith("Serving ")]
    assert len(lines) == len(service.log) - 1
    events = [json.loads(line)["event"] for line in lines]
    assert [event for event in events if not event.startswith("database ")] == [
        "accepting plants",
        "stopping",
        "stopped",
    ]
