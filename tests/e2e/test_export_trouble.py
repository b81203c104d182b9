"""Exports while the log of SQLite is long, and while PostgreSQL hangs."""

import contextlib
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.changes import Upsert
from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.postgres import Programs, Server, wait_until
from support.service import Answer, Client, Service, opened
from support.wire import Wire

MIB = 1024 * 1024

# More than the buffers of a connection hold, so that an export waits for its client.
LARGE = [NewPlant(id_, "x" * 100_000) for id_ in range(400)]

SMALL = NewPlant(5_000, "Abies")

# Parameters of the URL of a database, for short time limits.
SOON = "?connect_timeout=2&options=-cstatement_timeout%3D200"


@contextlib.contextmanager
def hanging_server(programs: Programs, name: str) -> Iterator[Server]:
    """Run a server with large plants, for a test to suspend."""
    with Server(programs, name) as server:
        with opened(server.url()) as store:
            store.apply_changes(LARGE)
        yield server


@contextlib.contextmanager
def begun_exports(service: Service, token: str, number: int = 1) -> Iterator[list[Wire]]:
    """Begin exports whose clients read only the status line."""
    with contextlib.ExitStack() as stack:
        wires = []
        for _ in range(number):
            wire = Wire(service.port)
            stack.callback(wire.close)
            wire.send(
                b"GET /plants.ndjson HTTP/1.1\r\nHost: x\r\n"
                b"Authorization: Bearer " + token.encode() + b"\r\n\r\n"
            )
            assert wire.file.readline() == b"HTTP/1.1 200 OK\r\n"
            wires.append(wire)
        yield wires


def is_whole(wire: Wire) -> bool:
    """Read the rest of an export, and return whether its end arrived."""
    last = b""
    with contextlib.suppress(ConnectionResetError):
        while not last.endswith(b"0\r\n\r\n") and (piece := wire.file.read1(100_000)):
            last = last[-5:] + piece
    return last.endswith(b"0\r\n\r\n")


def export(client: Client) -> Answer:
    """Export no plant, with a snapshot as any other export."""
    return client.send("GET", "/plants.csv?tag=none")


def test_no_export_begins_while_older_ones_keep_the_log_long(tmp_path: Path) -> None:
    log = tmp_path / "plants.db-wal"
    statuses = []
    with Service(tmp_path, "--request-seconds", "60") as service:
        service.change(*LARGE)
        token = service.token()
        with contextlib.closing(service.client(token)) as client:
            with begun_exports(service, token) as [first]:
                for letter in "abcdefghij":
                    statuses.append(export(client).status)
                    service.change(*(Upsert(NewPlant(id_, letter * MIB)) for id_ in range(8)))
                refused = export(client)
                page = client.send("GET", "/plants?limit=1")
                first_is_whole = is_whole(first)
            # Another process wrote, and the service gets no change.
            wait_until(lambda: log.stat().st_size < 16 * MIB)
            accepted = export(client)

    assert statuses[:4] == [200] * 4
    assert (refused.status, refused.json["error"]) == (503, ErrorCode.OVERLOADED)
    assert 1 <= int(refused.headers["retry-after"]) <= 5
    assert (page.status, first_is_whole, accepted.status) == (200, True, 200)


def test_a_long_log_that_a_crash_left_is_truncated_without_a_change(tmp_path: Path) -> None:
    log = tmp_path / "plants.db-wal"
    with Service(tmp_path, "--request-seconds", "60") as service:
        service.change(*LARGE)
        with begun_exports(service, service.token()):
            service.change(*(NewPlant(1_000 + number, "x" * MIB) for number in range(20)))
            service.process.send_signal(signal.SIGKILL)
            service.process.wait(60)
    before = log.stat().st_size

    with Service(tmp_path):
        wait_until(lambda: not log.stat().st_size, 10)

    assert before > 16 * MIB


@pytest.mark.engines("postgres")
def test_exports_are_cut_off_while_postgresql_hangs_and_run_again_when_it_resumes(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with (
        hanging_server(postgres_programs, "export_hangs") as server,
        Service(tmp_path, database=server.url() + SOON) as service,
    ):
        token = service.token()
        with (
            contextlib.closing(service.client(token)) as client,
            begun_exports(service, token, 6) as wires,
        ):
            server.signal_all(signal.SIGSTOP)
            wholes = [is_whole(wire) for wire in wires]
            refused = [client.post(SMALL), client.send("GET", "/plants/1"), export(client)]
            server.signal_all(signal.SIGCONT)
            wait_until(lambda: client.post(SMALL).status == 200)
            accepted = export(client)

    assert wholes == [False] * 6
    assert [answer.status for answer in refused] == [503] * 3
    assert accepted.status == 200


@pytest.mark.engines("postgres")
def test_a_stop_ends_while_exports_wait_for_a_postgresql_that_hangs(
    tmp_path: Path, postgres_programs: Programs
) -> None:
    with (
        hanging_server(postgres_programs, "stop_hangs") as server,
        Service(tmp_path, "--stop-seconds", "1", database=server.url() + SOON) as service,
    ):
        with begun_exports(service, service.token(), 12) as wires:
            server.signal_all(signal.SIGSTOP)
            status = service.stop()
            wholes = [is_whole(wire) for wire in wires]
        server.signal_all(signal.SIGCONT)

    assert status == 0
    assert wholes == [False] * 12
    assert not any("Traceback" in line for line in service.log)
