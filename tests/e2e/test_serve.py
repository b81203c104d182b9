"""`plantstore serve`: output, addresses, workers, log, and the health check of deploy/."""

import contextlib
import json
import os
import re
import resource
import shlex
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.certificates import make_pair
from support.command import on_terminal, run_program
from support.fronts import free_port
from support.load import Load
from support.postgres import wait_until
from support.service import PLANTSTORE, Client, Service, opened, serving, stored_plants
from support.wire import Wire

GARDEN, OTHER = "https://garden.example", "https://other.example"


def test_the_printed_curl_stores_a_plant_and_a_second_start_prints_no_token(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service:
        assert service.process.stdout is not None
        printed = ""
        while "-d '" not in printed:
            printed += service.process.stdout.readline()
        command = printed[printed.index("curl") :].replace("\\\n", " ")
        done = subprocess.run(
            shlex.split(command), capture_output=True, text=True, timeout=60, check=True
        )
    with Service(tmp_path) as again:
        pass

    assert done.stdout.startswith("HTTP/1.1 200 OK")
    assert done.stdout.endswith('{"name":"Abies balsamea (L.) Mill.","tag":"Abies"}')
    assert stored_plants(service.database) == {1: NewPlant(1, "Abies balsamea (L.) Mill.", "Abies")}
    [secret] = set(re.findall(r"plst_\w{36}", printed))
    assert not any(secret in line for line in service.log), "the log contains the secret"
    with opened(service.database) as store:
        assert secret not in repr(store.list_tokens()), "the store must have only its hash"
    assert again.said == ""


def test_the_log_is_json_lines_and_a_misspelled_variable_is_one_warning_in_it(
    tmp_path: Path,
) -> None:
    command = ["env", "PLANTSTORE_WORKRES=3", *PLANTSTORE]
    with (
        Service(tmp_path, command=command) as service,
        service.client(None) as client,
    ):
        assert client.send("GET", "/healthz").status == 200

    lines = [line for line in service.log if not line.startswith("Serving ")]
    assert len(lines) == len(service.log) - 1
    events = [json.loads(line) for line in lines]
    assert [event["event"] for event in events] == [
        "PLANTSTORE_WORKRES is not a setting; did you mean PLANTSTORE_WORKERS?",
        "database created",
        "accepting plants",
        "stopping",
        "stopped",
    ]
    assert [event["level"] for event in events[:2]] == ["warning"] * 2
    assert events[1]["database"] == f"{tmp_path}/plants.db"


def test_a_service_not_on_loopback_logs_how_to_create_a_token(tmp_path: Path) -> None:
    with Service(tmp_path, "--host", "0.0.0.0") as service:
        pass

    assert service.said == ""
    # The command needs no --database: this is the default.
    assert "plantstore token create NAME --scope all" in [line.strip() for line in service.log]


def test_workers_serve_also_if_the_standard_input_is_closed(tmp_path: Path) -> None:
    """The listener gets the descriptor 0, which is something else in a worker."""
    command = ["sh", "-c", 'exec "$@" <&-', "sh", *PLANTSTORE]
    with (
        Service(tmp_path, "--workers", "2", command=command) as service,
        service.client(None) as client,
    ):
        assert client.send("GET", "/healthz").status == 200


def test_the_metrics_are_summed_over_all_workers(tmp_path: Path) -> None:
    posts = {"http_route": "/plants", "http_request_method": "POST"}
    with serving(tmp_path, "--workers", "2") as (service, client):
        load = Load(service, service.token(name="load"), 0)
        load.wait_for_more(200)
        load.stop()
        sent = len(load.acknowledged)

        wait_until(lambda: client.total("plantstore_changes_total", outcome="stored") == sent)
        name = "http_server_request_duration_seconds_count"
        wait_until(lambda: client.total(name, http_response_status_code="200", **posts) == sent)
        wait_until(lambda: client.total("plantstore_batch_changes_sum") == sent)
        _, files_max = resource.getrlimit(resource.RLIMIT_NOFILE)
        wait_until(lambda: client.total("process_max_fds") == 2 * files_max)


def test_the_service_listens_on_ipv6(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--host", "::1") as service,
        socket.create_connection(("::1", service.port)) as connection,
    ):
        connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n")
        assert connection.recv(100).startswith(b"HTTP/1.1 200")

    assert f"http://[::1]:{service.port}/plants" in service.said


def test_all_addresses_of_ipv6_are_also_those_of_ipv4(tmp_path: Path) -> None:
    options = ["--host", "::", "--access-log", "--trusted-proxy", "127.0.0.1"]
    forwarded = b"GET /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: 203.0.113.9\r\n\r\n"
    with Service(tmp_path, *options) as service:
        for address in ("::1", "127.0.0.1", "127.0.0.2"):
            with socket.create_connection(
                (address, service.port), source_address=(address, 0)
            ) as connection:
                connection.sendall(forwarded)
                assert connection.recv(100).startswith(b"HTTP/1.1 200")

    # Only the proxy may say who its client is.
    clients = [line["client"] for line in service.logged("request")]
    assert clients == ["::1", "203.0.113.9", "127.0.0.2"]


def test_several_origins_and_proxies_may_come_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PLANTSTORE_ALLOW_ORIGIN", f"{GARDEN} {OTHER}")
    monkeypatch.setenv("PLANTSTORE_TRUSTED_PROXY", "10.0.0.0/8 127.0.0.0/8")
    asked = {"Origin": OTHER, "X-Forwarded-For": "203.0.113.9", "X-Request-Id": "from-the-proxy"}
    with Service(tmp_path, "--access-log") as service:
        with service.client(service.token()) as client:
            answer = client.send("GET", "/plants", headers=asked)
        service.wait_for_log('"request"')

    assert answer.headers["access-control-allow-origin"] == OTHER
    [line] = service.logged("request")
    assert (line["client"], line["request_id"]) == ("203.0.113.9", "from-the-proxy")


HEALTHCHECK = Path(__file__).parents[2] / "deploy/healthcheck.py"


def check(port: int, **variables: str) -> subprocess.CompletedProcess[str]:
    env = os.environ | {"PLANTSTORE_PORT": str(port)} | variables
    return run_program(sys.executable, HEALTHCHECK, env=env, timeout=30)


def test_a_service_with_tls_that_is_not_ready_is_healthy_whatever_http_proxy_is_set(
    tmp_path: Path,
) -> None:
    tls = make_pair(tmp_path).options()
    with Service(tmp_path, *tls) as service:
        service.change(NewPlant(1, "Rosa"))
        (tmp_path / "plants.db-wal").rename(tmp_path / "moved")

        result = check(
            service.port,
            PLANTSTORE_TLS_CERTIFICATE=tls[1],
            http_proxy="http://127.0.0.1:9",
            https_proxy="http://127.0.0.1:9",
        )
        (tmp_path / "moved").rename(tmp_path / "plants.db-wal")

    assert (result.returncode, result.stderr) == (0, "")


def test_a_port_without_an_answer_is_unhealthy_and_reported_in_one_line() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        waited = check(port)
    refused = check(port)

    assert (waited.returncode, refused.returncode) == (1, 1)
    assert waited.stderr == f"http://localhost:{port}/healthz does not answer: timed out\n"
    assert refused.stderr.startswith(f"http://localhost:{port}/healthz does not answer: ")
    assert refused.stderr.count("\n") == 1


# The log: text on a terminal and JSON lines elsewhere; and a log that nobody reads.

# The line of a library, the line of the service, and an unexpected error with a secret in a local
# variable of its stack frames. The first two contain the process id as text.
PROGRAM = """
import logging, os
from plantstore.observe import DatabaseCreated, RequestFailed
from plantstore.telemetry.log import configure_logs, log_events

def handle(token):
    raise ZeroDivisionError("nobody foresaw this")

configure_logs()
logging.getLogger("library").warning(f"process {os.getpid()}")
observe = log_events()
observe(DatabaseCreated(f"process {os.getpid()}"))
try:
    handle("plst_" + "secret")
except ZeroDivisionError as error:
    observe(RequestFailed(error, "POST", "/plants", "0af7651916cd43dd"))
"""


@pytest.mark.parametrize("is_terminal", [False, True])
def test_each_line_of_the_log_has_the_process_id_and_a_traceback_no_local_variables(
    tmp_path: Path, *, is_terminal: bool
) -> None:
    if is_terminal:
        log = on_terminal(tmp_path, sys.executable, "-c", PROGRAM, NO_COLOR="1")
        of_library, of_service, *_ = log.splitlines()
        for line in (of_library, of_service):
            assert re.search(r"process (\d+)\b.* pid=\1$", line)
    else:
        log = run_program(sys.executable, "-c", PROGRAM, cwd=tmp_path).stderr
        of_library, of_service, of_error = log.splitlines()
        for line in (of_library, of_service):
            assert f"process {json.loads(line)['pid']}" in line
        assert json.loads(of_error)["pid"]

    for text in ("request failed", "nobody foresaw this", "handle"):
        assert text in log
    assert "plst_secret" not in log


# Each request makes a log line of 1 KiB: a few dozen fill a pipe.
REQUEST = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"x" * 1000)
AHEAD = 100

DROPPED = "plantstore_log_lines_dropped_total"


def send_many(service: Service, requests: int) -> None:
    with Wire(service.port) as wire:
        for _ in range(requests // AHEAD):
            wire.send(REQUEST * AHEAD)
            assert [wire.answer()[0] for _ in range(AHEAD)] == [404] * AHEAD


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_does_not_wait_for_a_reader_of_the_log(tmp_path: Path, workers: str) -> None:
    with Service(tmp_path, "--access-log", "--workers", workers) as service:
        service.reads_log.clear()
        send_many(service, 500)

        status = service.stop()

    assert status == 0


def is_open(port: int) -> bool:
    with contextlib.suppress(ConnectionRefusedError), Wire(port):
        return True
    return False


@pytest.mark.parametrize(("stderr", "dropped"), [("/dev/full", 10), ("&-", 0)])
def test_a_log_on_a_full_disk_or_without_stderr_fails_no_request_and_dropped_lines_are_counted(
    tmp_path: Path, stderr: str, dropped: int
) -> None:
    command = ["sh", "-c", f'exec "$@" 2>{stderr}', "sh", *PLANTSTORE, "serve", "--access-log"]
    port = free_port()
    service = Service(tmp_path)
    token = service.token()
    with subprocess.Popen(
        [*command, "--port", str(port)], cwd=tmp_path, env=service.env
    ) as process:
        wait_until(lambda: is_open(port))
        with Client(port, token) as client:
            assert [client.send("GET", "/plants").status for _ in range(10)] == [200] * 10
            wait_until(lambda: client.total(DROPPED) >= dropped)
        process.terminate()
        assert process.wait(60) == 0
