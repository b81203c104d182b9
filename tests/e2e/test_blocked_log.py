"""A log that cannot be written delays no response and does not prevent a stop."""

import contextlib
import subprocess
from pathlib import Path

import pytest

from support.fronts import free_port
from support.postgres import wait_until
from support.service import PLANTSTORE, Client, Service, serving
from support.wire import Wire

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
