"""Stopping the service: drain, graceful stop, and immediate stop after a second signal."""

import contextlib
import json
import os
import re
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import wait_until
from support.service import PLANTSTORE, Service, serving, stored_plants
from support.wire import Wire, get, head, slow_reader, with_length


@pytest.mark.parametrize("with_signal", [signal.SIGTERM, signal.SIGINT])
def test_a_draining_service_is_not_ready_and_serves_until_a_second_signal(
    tmp_path: Path, with_signal: signal.Signals
) -> None:
    with serving(tmp_path, "--drain-seconds", "3600") as (service, client):
        assert client.send("GET", "/readyz").status == 200

        service.process.send_signal(with_signal)
        wait_until(lambda: client.send("GET", "/readyz").status == 503)

        answer = client.send("GET", "/readyz")
        assert (answer.json["error"], answer.headers["retry-after"]) == (5003, "1")
        assert client.send("GET", "/healthz").status == 200
        assert client.post(NewPlant(1, "a")).status == 200
        with service.client(None) as new:
            assert new.send("GET", "/healthz").status == 200
        assert service.stop(with_signal) == -with_signal

    assert stored_plants(service.database) == {1: NewPlant(1, "a")}
    assert sum("stopping" in line for line in service.log) == 1


def hang_up(service: Service) -> None:
    """Send SIGHUP as a terminal that is closed: to all processes."""
    for pid in (service.process.pid, *service.children()):
        os.kill(pid, signal.SIGHUP)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_closed_terminal_stops_the_service_gracefully_even_if_it_hangs_up_twice(
    tmp_path: Path, workers: str
) -> None:
    with Service(tmp_path, "--workers", workers) as service, Wire(service.port) as wire:
        length, body = with_length(b'{"id":1,"name":"a"}')
        wire.send(head(service.token(), length, b"Expect: 100-continue"))
        assert wire.answer()[0] == 100

        hang_up(service)
        service.wait_for_log("stopping")
        hang_up(service)
        wire.send(body)

        assert wire.answer()[0] == 200
        status = service.stop(signal.SIGHUP)

    assert status == 0
    assert stored_plants(service.database) == {1: NewPlant(1, "a")}
    assert service.has_logged('"stopped"')  # the last lines of several processes have no order


def is_refused(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) != 0


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_service_that_stops_accepts_no_new_connection(tmp_path: Path, workers: str) -> None:
    with Service(tmp_path, "--workers", workers) as service, Wire(service.port) as wire:
        length, body = with_length(b'{"id":1,"name":"a"}')
        wire.send(head(service.token(), length, b"Expect: 100-continue"))
        assert wire.answer()[0] == 100
        service.process.send_signal(signal.SIGTERM)

        wait_until(lambda: is_refused(service.port))
        wire.send(body)

        assert wire.answer()[0] == 200


def test_a_service_that_was_started_with_nohup_ignores_a_closed_terminal(tmp_path: Path) -> None:
    command = ["nohup", *PLANTSTORE]
    with Service(tmp_path, "--workers", "2", command=command) as service:
        wait_until(lambda: len(service.workers()) == 2)
        pids = [service.process.pid, *service.children()]
        ignored = [re.search(r"SigIgn:\s*(\w+)", status_of(pid)) for pid in pids]

    assert all(found and int(found[1], 16) & 1 << signal.SIGHUP - 1 for found in ignored)
    assert len(pids) == 3


def status_of(pid: int) -> str:
    return Path(f"/proc/{pid}/status").read_text(encoding="ascii")


@pytest.mark.parametrize("options", [[], ["--workers", "2", "--drain-seconds", "1"]], ids=str)
def test_a_stop_under_load_drops_no_accepted_request(tmp_path: Path, options: list[str]) -> None:
    """The stop is that of Ctrl-C, which also sends its signal to the workers."""
    with Service(tmp_path, *options) as service:
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


def test_a_stop_while_the_event_loop_starts_is_graceful(tmp_path: Path) -> None:
    ended = subprocess.run(
        [sys.executable, "-c", STOPPED_WHILE_THE_EVENT_LOOP_STARTS],
        cwd=tmp_path,
        stderr=subprocess.PIPE,
        text=True,
        timeout=60,
        check=False,
    )

    *_, last = ended.stderr.splitlines()
    assert json.loads(last)["event"] == "stopped"
    assert ended.returncode == 0


def test_workers_stop_when_their_parent_is_killed(tmp_path: Path) -> None:
    with serving(tmp_path, "--workers", "2") as (service, client):
        assert client.post(NewPlant(1, "a")).status == 200

        service.process.kill()
        service.reader.join(60)  # until the last process has closed its stderr
        assert not service.reader.is_alive()

    assert stored_plants(service.database) == {1: NewPlant(1, "a")}


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_ends_a_stop_that_waits_for_a_client(tmp_path: Path, workers: str) -> None:
    options = ["--workers", workers, "--stop-seconds", "3600", "--request-seconds", "3600"]
    with Service(tmp_path, *options) as service, Wire(service.port) as wire:
        length, _ = with_length(b'{"id":1,"name":"a"}')
        wire.send(head(service.token(), length, b"Expect: 100-continue"))
        assert wire.answer()[0] == 100
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
        token = service.token()
        for _ in range(10):
            reader = stack.enter_context(slow_reader(service.port))
            reader.sendall(get("/plants", token) * 20)
            assert reader.recv(12) == b"HTTP/1.1 200"
        wire = stack.enter_context(Wire(service.port))
        wire.send(head(token, b"Content-Length: 100", b"Expect: 100-continue"))
        assert wire.answer()[0] == 100

        assert service.stop() == 0

        status, headers, body = wire.answer()

    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert json.loads(body)["error"] == 5003
    assert not any("Traceback" in line or "Exception" in line for line in service.log)
