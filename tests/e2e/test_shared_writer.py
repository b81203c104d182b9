"""Several workers on SQLite, and the process that writes for them: its end and its replacement."""

import os
import signal
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.load import Load
from support.postgres import wait_until
from support.service import Client, Service, stored_plants

pytestmark = pytest.mark.serve("--workers", "2")


@pytest.fixture(scope="module", autouse=True)
def _started(service: Service) -> None:
    wait_for_writer(service)
    wait_until(lambda: len(service.workers()) == 2)


def wait_for_writer(service: Service, *other_than: int) -> int:
    """Return the process id of the process that writes, once it accepts connections."""
    wait_until(lambda: service.writer() not in {None, *other_than})
    pid = service.writer()
    assert pid is not None
    return pid


def test_a_writer_that_is_killed_or_hangs_is_replaced_and_nothing_acknowledged_is_lost(
    service: Service, client: Client, token: str
) -> None:
    load = Load(service, token, 0)
    for number in (signal.SIGKILL, signal.SIGSTOP):
        load.wait_for_more(100)
        writer = wait_for_writer(service)

        os.kill(writer, number)

        wait_for_writer(service, writer)
        load.wait_for_more(100)
    assert client.send("GET", "/readyz").status == 200
    load.stop()

    # What was on its way when a writer ended may be stored, and all else was answered.
    assert set(load.refused) <= {503}
    assert len(load.refused) <= 2 * 8
    stored = stored_plants(service.database)
    assert load.acknowledged.items() <= stored.items()
    assert {id_ for id_ in stored if id_ < 100_000_000} <= load.sent.keys()


def test_requests_wait_while_the_writer_is_replaced(service: Service, client: Client) -> None:
    assert client.post(NewPlant(200_000_000, "a")).status == 200
    writer = wait_for_writer(service)

    os.kill(writer, signal.SIGKILL)
    wait_until(lambda: not Path(f"/proc/{writer}").exists())  # its connections are closed
    answers = [client.post(NewPlant(200_000_000 + id_, "a")).status for id_ in range(1, 20)]

    assert answers == [200] * 19


def test_the_writer_continues_when_it_is_told_to_stop_before_the_workers(
    service: Service, token: str
) -> None:
    load = Load(service, token, 300_000_000)
    load.wait_for_more(50)
    for _ in range(2):
        os.kill(wait_for_writer(service), signal.SIGTERM)
    load.wait_for_more(100)
    load.stop()

    assert not load.refused
    assert load.acknowledged.items() <= stored_plants(service.database).items()


def test_no_other_user_can_reach_the_writer_because_no_socket_has_an_address(
    service: Service,
) -> None:
    wait_for_writer(service)
    files = {
        str(file.readlink())
        for pid in (service.process.pid, *service.spawned())
        for file in Path(f"/proc/{pid}/fd").iterdir()
    }
    lines = Path("/proc/net/unix").read_text(encoding="utf-8").splitlines()[1:]

    # The address is the eighth column, after the inode (proc_net_unix(5)).
    sockets = [line.split() for line in lines if f"socket:[{line.split()[6]}]" in files]
    assert sockets
    assert [columns for columns in sockets if len(columns) > 7] == []
