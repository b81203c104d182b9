"""Stopping the service: drain, graceful stop, and immediate stop after a second signal."""

import contextlib
import json
import os
import signal
import socket
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.command import run_program
from support.load import Load
from support.postgres import wait_until
from support.service import Service, serving, stored_plants
from support.wire import Wire, get, head, slow_reader, with_length

LENGTH, BODY = with_length(b'{"id":1,"name":"a"}')
PLANTS = {1: NewPlant(1, "a")}

both = pytest.mark.parametrize("workers", ["1", "2"])


@contextlib.contextmanager
def waiting(service: Service) -> Iterator[Wire]:
    """Send a create whose body is missing."""
    with Wire(service.port) as wire:
        wire.send(head(service.token(), LENGTH, b"Expect: 100-continue"))
        assert wire.answer()[0] == 100
        yield wire


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_draining_service_is_not_ready_and_serves_until_a_second_signal(
    tmp_path: Path, with_signal: signal.Signals
) -> None:
    with serving(tmp_path, "--drain-seconds", "3600") as (service, client):
        assert client.send("GET", "/readyz").status == 200

        service.process.send_signal(with_signal)
        wait_until(lambda: client.send("GET", "/readyz").status == 503)

        assert client.post(NewPlant(1, "a")).status == 200
        with service.client(None) as new:
            assert new.send("GET", "/healthz").status == 200
        service.wait_for_log("stopping")  # the second signal does not wait for the log
        assert service.stop(with_signal) == -with_signal

    assert stored_plants(service.database) == PLANTS
    assert sum("stopping" in line for line in service.log) == 1


def is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


@both
def test_a_service_that_stops_accepts_no_new_connection_and_ends_open_requests(
    tmp_path: Path, workers: str
) -> None:
    """The signals are those of a terminal that is closed, to all processes, and twice."""
    with Service(tmp_path, "--workers", workers) as service, waiting(service) as wire:
        for _ in range(2):
            for pid in (service.process.pid, *service.children()):
                with contextlib.suppress(ProcessLookupError):  # a worker without requests has ended
                    os.kill(pid, signal.SIGHUP)
            service.wait_for_log("stopping")
        wait_until(lambda: is_refused(service.port))
        wire.send(BODY)

        assert wire.answer()[0] == 200
        status = service.stop(signal.SIGHUP)

    assert status == 0
    assert stored_plants(service.database) == PLANTS
    assert service.has_logged('"stopped"')  # the last lines of several processes have no order


def test_a_stop_under_load_drops_no_accepted_request(tmp_path: Path) -> None:
    """The stop is that of Ctrl-C, which also sends its signal to the workers."""
    with Service(tmp_path, "--workers", "2", "--drain-seconds", "1") as service:
        load = Load(service, service.token(), 0)
        load.wait_for_more(200)
        for pid in service.workers():
            os.kill(pid, signal.SIGINT)
        status = service.stop(signal.SIGINT)
        load.join()

    assert status == 0
    assert not load.refused
    # The service stored and answered every request that it accepted, and no other.
    assert stored_plants(service.database) == load.acknowledged
    assert "stopped" in service.log[-1]


STOPPED_WHILE_THE_EVENT_LOOP_STARTS = """
import signal
import sys

import uvloop

from plantstore.cli import main


class Loop(uvloop.Loop):
    has_run = False

    def run_forever(self):
        if not self.has_run:
            self.has_run = True
            signal.raise_signal(signal.SIGTERM)
        super().run_forever()


uvloop.new_event_loop = Loop
sys.argv[1:] = ["serve", "--port", "0"]
sys.exit(main())
"""


STOPPED_BEFORE_THE_STORE_IS_OPEN = """
import importlib
import logging
import signal
import sys

from plantstore.cli import main


def stop(*_):
    logging.getLogger().warning("opening")
    signal.raise_signal(signal.SIGTERM)


importlib.import_module("plantstore.cli.serve").open_store_of = stop
sys.argv[1:] = ["serve", "--port", "0"]
sys.exit(main())
"""


@pytest.mark.parametrize(
    ("program", "event"),
    [
        (STOPPED_BEFORE_THE_STORE_IS_OPEN, "opening"),
        (STOPPED_WHILE_THE_EVENT_LOOP_STARTS, "stopped"),
    ],
)
def test_a_stop_during_the_start_is_graceful(tmp_path: Path, program: str, event: str) -> None:
    ended = run_program(sys.executable, "-c", program, cwd=tmp_path)

    *_, last = ended.stderr.splitlines()
    assert json.loads(last)["event"] == event
    assert ended.returncode == 0


def test_workers_stop_when_their_parent_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as (service, client):
        assert client.post(NewPlant(1, "a")).status == 200

        service.process.kill()
        service.reader.join(60)  # until the last process has closed its stderr
        assert not service.reader.is_alive()

    assert stored_plants(service.database) == PLANTS


@both
def test_a_second_signal_ends_a_stop_that_waits_for_a_client(tmp_path: Path, workers: str) -> None:
    options = ["--workers", workers, "--stop-seconds", "3600", "--request-seconds", "3600"]
    with Service(tmp_path, *options) as service, waiting(service):
        children = service.children()

        service.process.send_signal(signal.SIGTERM)
        service.wait_for_log("stopping")
        status = service.stop()

    assert status == (-signal.SIGTERM if workers == "1" else 128 + signal.SIGTERM)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
    assert not stored_plants(service.database)


def test_at_the_end_of_a_stop_an_unfinished_request_is_503_and_unread_responses_are_cut_off(
    tmp_path: Path,
) -> None:
    options = ["--request-seconds", "3600", "--stop-seconds", "1"]
    with Service(tmp_path, *options) as service, contextlib.ExitStack() as stack:
        service.change(NewPlant(0, "x" * 1_000_000))
        wire = stack.enter_context(waiting(service))
        token = service.token(name="reader")
        for _ in range(10):
            reader = stack.enter_context(slow_reader(service.port))
            reader.sendall(get("/plants", token) * 20)
            assert reader.recv(12) == b"HTTP/1.1 200"

        assert service.stop() == 0

        status, headers, body = wire.answer()

    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert json.loads(body)["error"] == 5003
    assert not any("Traceback" in line or "Exception" in line for line in service.log)
