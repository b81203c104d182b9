"""Limits on connections: timeouts, fairness, their number, and accepting them."""

import asyncio
import contextlib
import http.client
import json
import resource
import signal
import socket
import struct
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import uvloop

from plantstore.plants import NewPlant
from plantstore.server.listener import ACCEPTED_MAX, Listener
from support.postgres import wait_until
from support.service import Service, stored_plants
from support.wire import Wire, assert_refused, head, send_until_refused, with_length

PATIENCE = 0.5
HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b'{"id":1,"name":"a"}'
LENGTH, _ = with_length(BODY)

# A plant whose response does not fit into the buffers of a connection, and the page with it.
LARGE = NewPlant(1000, "é🌱" * 160_000)
PAGE = b"GET /plants?after=999 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n"


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    options = ["--request-seconds", str(PATIENCE), "--idle-seconds", str(PATIENCE)]
    with Service(tmp_path_factory.mktemp("limits"), *options) as running:
        running.change(LARGE)
        yield running


@pytest.fixture(scope="module")
def token(service: Service) -> str:
    return service.token()


def slow_reader(service: Service) -> socket.socket:
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", service.port))
    return reader


@pytest.mark.parametrize("sent", [b"", b"\r\n"])
def test_a_connection_without_a_request_is_closed(connect: Callable[[], Wire], sent: bytes) -> None:
    wire = connect()
    wire.send(sent)

    assert wire.is_closed()


def test_a_connection_that_idles_after_a_response_is_closed(connect: Callable[[], Wire]) -> None:
    wire = connect()
    wire.send(HEALTH)

    assert wire.answer()[0] == 200
    assert wire.is_closed()


def test_the_request_timeout_does_not_close_an_idle_connection(tmp_path: Path) -> None:
    options = ["--request-seconds", str(PATIENCE), "--idle-seconds", "3600"]
    with Service(tmp_path, *options) as service:
        idle = Wire(service.port)
        idle.send(HEALTH)
        first = idle.answer()[0]

        for sent in (b"", b"GET /"):  # one after the other, each until it times out
            late = Wire(service.port)
            late.send(sent)
            late.file.read()
            late.close()
        idle.send(HEALTH)

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


def test_an_incomplete_body_is_408_after_the_request_timeout_and_changes_nothing(
    service: Service, token: str, connect: Callable[[], Wire]
) -> None:
    post = head(token, b"Content-Length: 100")
    delete = post.replace(b"POST /plants", b"DELETE /plants/1000")
    chunked = head(token, b"Transfer-Encoding: chunked") + b"13\r\n%s\r\n" % BODY
    wires = []
    for begun in (post + BODY, chunked, delete + b"abc"):
        wires.append(connect())
        wires[-1].send(begun)

    for wire in wires:
        assert_refused(wire, 408, 3007)
    stored = stored_plants(service.database)
    assert 1 not in stored
    assert stored[LARGE.id] == LARGE


def test_a_body_that_trickles_in_does_not_extend_the_request_timeout(
    token: str, connect: Callable[[], Wire]
) -> None:
    wire = connect()
    size = 900_000
    wire.send(head(token, b"Content-Length: %d" % size))

    assert send_until_refused(wire, b" ", size) < size


def test_a_timeout_is_logged_once_and_a_reset_connection_not_at_all(tmp_path: Path) -> None:
    with Service(tmp_path, "--access-log", "--request-seconds", str(PATIENCE)) as service:
        token = service.token()
        one = head(token, LENGTH) + BODY
        unfinished = head(token, b"Content-Length: 100") + BODY
        for _ in range(30):
            wire = Wire(service.port)
            wire.send(one + one + unfinished)
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.close()
        wire = Wire(service.port)
        wire.send(unfinished)
        assert wire.answer()[0] == 408
        wire.close()

    assert not any("Exception" in line for line in service.log)
    lines = [json.loads(line) for line in service.log if line.startswith("{")]
    assert [line["reason"] for line in lines if line["event"] == "refused"] == ["request_timeout"]
    statuses = [line["status"] for line in lines if line["event"] == "request"]
    assert sorted(status for status in statuses if status != 200) == [408]
    assert stored_plants(service.database).keys() <= {1}


def test_a_client_that_reads_no_response_is_disconnected(service: Service, token: str) -> None:
    request = PAGE % token.encode()
    before = service.open_sockets()

    with slow_reader(service) as taker, slow_reader(service) as closer:
        taker.sendall(request * 20)
        closer.sendall(request * 20 + request[:-2] + b"Connection: close\r\n\r\n")
        wait_until(lambda: service.open_sockets() >= before + 2)
        wait_until(lambda: service.open_sockets() <= before)


def test_a_slow_reader_gets_the_whole_response(service: Service, token: str) -> None:
    with slow_reader(service) as taker:
        taker.sendall((PAGE % token.encode())[:-2] + b"Connection: close\r\n\r\n")
        taken = bytearray()
        began = time.monotonic()
        while piece := taker.recv(4096):
            taken += piece
            # Four times the minimum rate. The whole response takes several times PATIENCE.
            due = began + len(taken) / 65536 / 4 * PATIENCE
            time.sleep(max(0.0, due - time.monotonic()))

    [plant] = json.loads(taken.partition(b"\r\n\r\n")[2])
    assert plant["name"] == LARGE.name


def test_the_memory_of_a_large_response_is_reused_for_the_next(
    service: Service, token: str
) -> None:
    client = service.client(token)

    def page_faults() -> int:
        stat = Path(f"/proc/{service.process.pid}/stat").read_text(encoding="ascii")
        return int(stat.rpartition(")")[2].split()[7])

    for _ in range(20):
        assert client.send("GET", "/plants?after=999").status == 200
    before = page_faults()
    for _ in range(50):
        assert client.send("GET", "/plants?after=999").status == 200

    assert (page_faults() - before) / 50 < 250, (
        "1 MiB has 256 pages, and the service holds several copies of the plant"
    )
    client.close()


def test_requests_that_arrive_while_the_process_is_suspended_do_not_time_out(
    service: Service, token: str, connect: Callable[[], Wire]
) -> None:
    wires = [connect() for _ in range(10)]
    wires[0].send(HEALTH)
    assert wires[0].answer()[0] == 200

    service.process.send_signal(signal.SIGSTOP)
    wires += [connect() for _ in range(10)]
    for wire in wires:
        wire.send(head(token, LENGTH) + BODY)
    time.sleep(PATIENCE + 1.5)  # longer than the request timeout
    service.process.send_signal(signal.SIGCONT)

    assert [wire.answer()[0] for wire in wires] == [200] * 20


def test_a_thousand_pipelined_requests_do_not_delay_another_connection(tmp_path: Path) -> None:
    with Service(tmp_path, "--access-log") as service:
        greedy, honest = Wire(service.port), Wire(service.port)
        for wire in (greedy, honest):
            wire.send(HEALTH)
            assert wire.answer()[0] == 200
        service.process.send_signal(signal.SIGSTOP)  # so that it reads all requests at once
        greedy.send(HEALTH * 1000)
        honest.send(HEALTH.replace(b"healthz", b"honest"))
        service.process.send_signal(signal.SIGCONT)

        assert [greedy.answer()[0] for _ in range(1000)] == [200] * 1000
        assert honest.answer()[0] == 404
        greedy.close()
        honest.close()

    paths = [json.loads(line)["path"] for line in service.log if '"path"' in line]
    assert len(paths) == 1003
    assert paths.index("/honest") < 10


def is_healthy(service: Service) -> bool:
    with contextlib.closing(service.client(None)) as client:
        try:
            return client.send("GET", "/healthz").status == 200
        except (OSError, http.client.HTTPException):
            return False


def test_connections_over_connections_max_are_503_and_the_others_are_served(tmp_path: Path) -> None:
    with Service(tmp_path, "--connections-max", "3") as service:
        wires = [Wire(service.port) for _ in range(3)]
        for wire in wires:
            wire.send(HEALTH)
            assert wire.answer()[0] == 200

        refused = Wire(service.port)
        assert_refused(refused, 503, 5004)
        refused.close()
        for wire in wires:
            wire.send(HEALTH)
            assert wire.answer()[0] == 200
            wire.close()

        wait_until(lambda: is_healthy(service))
    assert any("too_many_connections" in line for line in service.log)


def test_without_free_file_descriptors_new_connections_wait_and_open_ones_are_served(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service, contextlib.ExitStack() as stack:
        connected = service.client(None)
        assert connected.send("GET", "/healthz").status == 200
        pid = service.process.pid
        files_max = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 5
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files_max, files_max))

        for _ in range(20):
            opened = socket.create_connection(("127.0.0.1", service.port), timeout=30)
            stack.enter_context(opened)
        assert connected.send("GET", "/healthz").status == 200
        stack.close()

        assert is_healthy(service)
        connected.close()


def test_many_connections_are_accepted_per_event_loop_iteration() -> None:
    waiting = 2 * ACCEPTED_MAX

    async def iterations_of(listener: socket.socket) -> list[int]:
        """Return in which iteration of the event loop each connection got its protocol."""
        made: list[int] = []
        iteration = 0

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.append(iteration)
                transport.close()

        accepting = Listener(asyncio.get_running_loop(), Connection, listener, None)
        while len(made) < waiting:
            iteration += 1
            await asyncio.sleep(0)
        accepting.close()
        await accepting.wait_closed()
        return made

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=waiting))
        for _ in range(waiting):
            stack.enter_context(socket.create_connection(listener.getsockname()))

        made = uvloop.run(iterations_of(listener))

    assert max(made) < 10
