"""Stopping the service: drain, graceful stop, and immediate stop after a second signal."""

import os
import signal
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import wait_until
from support.service import Service, stored_plants
from support.wire import Wire, head, with_length

SIGNALS = [signal.SIGTERM, signal.SIGINT]


@pytest.mark.parametrize("with_signal", SIGNALS)
def test_a_draining_service_is_not_ready_and_serves_until_a_second_signal(
    tmp_path: Path, with_signal: signal.Signals
) -> None:
    with Service(tmp_path, "--drain-seconds", "3600") as service:
        client = service.client(service.token())
        assert client.send("GET", "/readyz").status == 200

        service.process.send_signal(with_signal)
        wait_until(lambda: client.send("GET", "/readyz").status == 503)

        answer = client.send("GET", "/readyz")
        assert (answer.json["error"], answer.headers["retry-after"]) == (5003, "1")
        assert client.send("GET", "/healthz").status == 200
        assert client.post(NewPlant(1, "a")).status == 200
        new = service.client(None)
        assert new.send("GET", "/healthz").status == 200
        new.close()
        assert service.stop(with_signal) == -with_signal
        client.close()

    assert stored_plants(service.database) == {1: NewPlant(1, "a")}
    assert sum("stopping" in line for line in service.log) == 1


def test_the_end_of_the_drain_is_a_graceful_stop(tmp_path: Path) -> None:
    with Service(tmp_path, "--drain-seconds", "1") as service:
        load = Load(service, service.token(), 0)
        load.wait_for_more()
        status = service.stop()
        load.join()

    assert status == 0
    assert not load.refused
    assert stored_plants(service.database) == load.acknowledged
    assert ["stopping" in service.log[-2], "stopped" in service.log[-1]] == [True, True]


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_second_signal_ends_a_stop_that_waits_for_a_client(tmp_path: Path, workers: str) -> None:
    options = ["--workers", workers, "--stop-seconds", "3600", "--request-seconds", "3600"]
    with Service(tmp_path, *options) as service:
        length, _ = with_length(b'{"id":1,"name":"a"}')
        wire = Wire(service.port)
        wire.send(head(service.token(), length, b"Expect: 100-continue"))
        assert wire.answer()[0] == 100
        children = service.children()

        service.process.send_signal(signal.SIGTERM)
        wait_until(lambda: any("stopping" in line for line in service.log))
        status = service.stop()
        wire.close()

    assert status == (-signal.SIGTERM if workers == "1" else 128 + signal.SIGTERM)
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in children))
    assert not stored_plants(service.database)


def test_ctrl_c_stops_the_parent_and_its_workers_gracefully(tmp_path: Path) -> None:
    with Service(tmp_path, "--workers", "2") as service:
        load = Load(service, service.token(), 0)
        load.wait_for_more()
        for pid in service.children():
            os.kill(pid, signal.SIGINT)
        status = service.stop(signal.SIGINT)
        load.join()

    assert status == 0
    assert not load.refused
    assert stored_plants(service.database) == load.acknowledged
