"""The log: text on a terminal and JSON lines elsewhere; and a log that nobody reads."""

import contextlib
import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from support.command import on_terminal, run_program
from support.fronts import free_port
from support.postgres import wait_until
from support.service import PLANTSTORE, Client, Service, serving
from support.wire import Wire

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


# Each request makes a log line of 1 KiB: a few dozen fill a pipe, a few thousand the queue.
REQUEST = b"GET /%s HTTP/1.1\r\nHost: x\r\n\r\n" % (b"x" * 1000)
AHEAD = 100

DROPPED = "plantstore_log_lines_dropped_total"


def send_many(service: Service, requests: int) -> None:
    with Wire(service.port) as wire:
        for _ in range(requests // AHEAD):
            wire.send(REQUEST * AHEAD)
            assert [wire.answer()[0] for _ in range(AHEAD)] == [404] * AHEAD


def lines_of(service: Service) -> int:
    """Return the number of lines about the requests of `send_many`."""
    return sum('"path": "/xxx' in line for line in list(service.log))


def test_while_nobody_reads_the_log_all_requests_are_answered_and_dropped_lines_are_counted(
    tmp_path: Path,
) -> None:
    requests = 6000
    with serving(tmp_path, "--access-log") as (service, client):
        service.reads_log.clear()
        send_many(service, requests)

        dropped = client.total(DROPPED)
        service.reads_log.set()
        # A stop waits only a second for the lines in the queue, and the reader may be slower.
        wait_until(lambda: lines_of(service) >= requests - dropped)

    assert dropped > 0
    assert lines_of(service) == requests - dropped


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
