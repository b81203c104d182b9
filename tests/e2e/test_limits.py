"""Limits on one connection: timeouts, memory, and the number of connections."""

import contextlib
import http.client
import json
import signal
import socket
import sqlite3
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.postgres import wait_until
from support.service import Service, opened, stored_plants
from support.wire import Wire, assert_refused, head, send_until_refused, with_length

PATIENCE = 0.5
BODY = b'{"id":1,"name":"a"}'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    options = ["--request-seconds", str(PATIENCE), "--idle-seconds", str(PATIENCE)]
    with Service(tmp_path, *options) as running:
        yield running


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_a_connection_without_a_request_is_closed(connect: Callable[[], Wire], sent: bytes) -> None:
    wire = connect()
    wire.send(sent)

    assert wire.is_closed()


def test_a_connection_that_idles_after_a_response_is_closed(
    service: Service, connect: Callable[[], Wire]
) -> None:
    token = service.token()
    wire = connect()
    length, body = with_length(BODY)
    wire.send(head(token, length) + body)

    assert wire.answer()[0] == 200
    assert wire.is_closed()


def test_the_request_timeout_does_not_close_an_idle_connection(
    tmp_path: Path,
) -> None:
    request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
    options = ["--request-seconds", str(PATIENCE), "--idle-seconds", "3600"]
    with Service(tmp_path, *options) as service:
        idle = Wire(service.port)
        idle.send(request)
        first = idle.answer()[0]

        for sent in (b"", b"GET /"):  # one after the other, each until it times out
            late = Wire(service.port)
            late.send(sent)
            late.file.read()
            late.close()
        idle.send(request)

        assert [first, idle.answer()[0]] == [200, 200]
        idle.send(b"GET /")
        assert_refused(idle, 408, 3007)
        idle.close()


@pytest.mark.parametrize(
    "begun",
    [
        b"P",
        b"POST /plants HTTP/1.1\r\nHost: x\r\nX-",
        head("x", b"Content-Length: 9")[:-2],
    ],
)
def test_an_incomplete_head_is_408_after_the_request_timeout(
    connect: Callable[[], Wire], begun: bytes
) -> None:
    wire = connect()
    wire.send(begun)

    assert_refused(wire, 408, 3007)


def test_a_body_that_trickles_in_does_not_extend_the_request_timeout(
    service: Service, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    size = 900_000
    wire.send(head(service.token(), b"Content-Length: %d" % size))

    assert send_until_refused(wire, b" ", size) < size


@pytest.mark.parametrize(
    "field", [b"Content-Length: 100", b"Transfer-Encoding: chunked"], ids=["length", "chunked"]
)
def test_an_incomplete_body_is_408_after_the_request_timeout_and_not_stored(
    service: Service, connect: Callable[[], Wire], field: bytes
) -> None:
    token = service.token()
    wire = connect()
    piece = BODY if field.startswith(b"Content") else b"13\r\n%s\r\n" % BODY
    wire.send(head(token, field) + piece)

    assert_refused(wire, 408, 3007)
    assert not stored_plants(service.database)


def test_the_request_timeout_does_not_cut_off_a_slow_commit(
    service: Service, connect: Callable[[], Wire]
) -> None:
    length, body = with_length(BODY)
    token = service.token()
    with contextlib.closing(sqlite3.connect(service.folder / "plants.db")) as other:
        other.execute("BEGIN IMMEDIATE")
        wire = connect()
        wire.send(head(token, length) + body)
        status, _, body = wire.answer()  # takes about a second

    assert (status, json.loads(body)["error"]) == (503, 5003)


def test_a_client_that_reads_no_response_is_disconnected(service: Service) -> None:
    with opened(service.database) as store:
        store.apply_changes([NewPlant(1, "x" * 1_000_000)])
    token = service.token()
    before = service.open_sockets()
    request = b"GET /plants?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n"

    with socket.socket() as taker, socket.socket() as closer:
        for each, last in ((taker, b""), (closer, b"Connection: close\r\n\r\n")):
            each.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            each.connect(("127.0.0.1", service.port))
            each.sendall(request % token.encode() * 20)
            if last:
                each.sendall((request % token.encode())[:-2] + last)
        wait_until(lambda: service.open_sockets() >= before + 2)
        wait_until(lambda: service.open_sockets() <= before)


def test_a_slow_reader_gets_the_whole_response(service: Service) -> None:
    with opened(service.database) as store:
        store.apply_changes([NewPlant(1, "x" * 1_000_000)])
    request = (
        f"GET /plants?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {service.token()}"
        "\r\nConnection: close\r\n\r\n"
    )

    with socket.socket() as taker:
        taker.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        taker.connect(("127.0.0.1", service.port))
        taker.sendall(request.encode())
        taken = bytearray()
        began = time.monotonic()
        while piece := taker.recv(4096):
            taken += piece
            # Four times the minimum rate. The whole response takes several times PATIENCE.
            due = began + len(taken) / 65536 / 4 * PATIENCE
            time.sleep(max(0.0, due - time.monotonic()))

    [plant] = json.loads(taken.partition(b"\r\n\r\n")[2])
    assert len(plant["name"]) == 1_000_000


def test_requests_that_arrive_while_the_process_is_suspended_do_not_time_out(
    service: Service, connect: Callable[[], Wire]
) -> None:
    length, body = with_length(BODY)
    token = service.token()
    wires = [connect() for _ in range(20)]
    wires[0].send(head(token, length) + body)
    assert wires[0].answer()[0] == 200

    service.process.send_signal(signal.SIGSTOP)
    for wire in wires[1:]:
        wire.send(head(token, length) + body)
    time.sleep(PATIENCE + 1.5)  # longer than the request timeout
    service.process.send_signal(signal.SIGCONT)

    assert [wire.answer()[0] for wire in wires[1:]] == [200] * 19


def test_connections_over_connections_max_are_503_and_the_others_are_served(tmp_path: Path) -> None:
    with Service(tmp_path, "--connections-max", "3") as service:
        request = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
        wires = [Wire(service.port) for _ in range(3)]
        for wire in wires:
            wire.send(request)
            assert wire.answer()[0] == 200

        refused = Wire(service.port)
        status, headers, body = refused.answer()
        assert (status, json.loads(body)["error"]) == (503, 5004)
        assert headers[b"retry-after"] == b"1"
        assert refused.is_closed()
        refused.close()
        for wire in wires:
            wire.send(request)
            assert wire.answer()[0] == 200
            wire.close()

        def is_served() -> bool:
            client = service.client(None)
            try:
                return client.send("GET", "/healthz").status == 200
            except (OSError, http.client.HTTPException):
                return False
            finally:
                client.close()

        wait_until(is_served)
    assert any("too_many_connections" in line for line in service.log)


def test_the_memory_of_a_large_response_is_reused_for_the_next(service: Service) -> None:
    service.change(NewPlant(1, "é🌱" * 150_000))
    client = service.client(service.token())

    def page_faults() -> int:
        stat = Path(f"/proc/{service.process.pid}/stat").read_text(encoding="ascii")
        return int(stat.rpartition(")")[2].split()[7])

    for _ in range(20):
        assert client.send("GET", "/plants").status == 200
    before = page_faults()
    for _ in range(50):
        assert client.send("GET", "/plants").status == 200

    assert (page_faults() - before) / 50 < 250, (
        "1 MiB has 256 pages, and the service holds several copies of the plant"
    )
    client.close()


def test_a_plant_is_deleted_only_when_the_whole_request_has_arrived(
    service: Service, connect: Callable[[], Wire]
) -> None:
    token = service.token()
    with contextlib.closing(service.client(token)) as client:
        assert client.post(NewPlant(1, "a")).status == 200
    wire = connect()
    whole = head(token, b"Content-Length: 10")
    wire.send(whole.replace(b"POST /plants", b"DELETE /plants/1") + b"abc")

    assert wire.answer()[0] == 408
    assert 1 in stored_plants(service.database)
