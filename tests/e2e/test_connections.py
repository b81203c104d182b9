"""Requests on a connection with a malformed request, or beside misbehaving clients."""

import contextlib
import json
import signal
import socket
import ssl
import struct
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.postgres import wait_until
from support.service import Service, opened, stored_plants
from support.wire import Wire, head, with_length

HEALTH = b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n"
BODY = b'{"id":1,"name":"a"}'
PAGE = b"GET /plants?limit=1000 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %b\r\n\r\n"


def fill(service: Service) -> None:
    with opened(service.database) as store:
        store.apply_changes([NewPlant(0, "x" * 1_000_000)])


def slow_reader(service: Service, stack: contextlib.ExitStack) -> socket.socket:
    reader = stack.enter_context(socket.socket())
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", service.port))
    return reader


@pytest.mark.parametrize(
    ("second", "status"),
    [(b"ZZ\r\n", 400), (b"0\r\n" + b"X: y\r\n" * 10_000, 431)],
    ids=["no chunk", "trailers"],
)
def test_a_create_is_answered_before_the_malformed_request_behind_it_is_refused(
    tmp_path: Path, second: bytes, status: int
) -> None:
    with Service(tmp_path) as service:
        token = service.token()
        length, body = with_length(BODY)
        wire = Wire(service.port)
        wire.send(head(token, length) + body)
        assert wire.answer()[0] == 200

        with contextlib.suppress(OSError):
            wire.send(
                head(token, length)
                + body.replace(b"1", b"2")
                + head(token, b"Transfer-Encoding: chunked")
                + second
            )

        assert [wire.answer()[0] for _ in range(2)] == [200, status]
        wire.close()


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


def test_a_stop_does_not_wait_for_clients_that_read_no_response(tmp_path: Path) -> None:
    options = ["--request-seconds", "3600", "--stop-seconds", "2"]
    with Service(tmp_path, *options) as service, contextlib.ExitStack() as stack:
        fill(service)
        request = PAGE % service.token().encode()
        for _ in range(10):
            reader = slow_reader(service, stack)
            reader.sendall(request * 20)
            assert reader.recv(12) == b"HTTP/1.1 200"

        assert service.stop() == 0

    assert not any("Traceback" in line or "Exception" in line for line in service.log)


def test_clients_that_reset_their_connections_cause_no_error_or_refusal_in_the_log(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service:
        token = service.token()
        length, body = with_length(BODY)
        for id_ in range(30):
            wire = Wire(service.port)
            one = head(token, length) + body
            wire.send(one + one + head(token, b"Content-Length: 100") + body[: id_ % 10])
            wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            wire.close()
        client = service.client(token)
        assert client.post(NewPlant(2, "b")).status == 200
        client.close()

    assert not any("Exception" in line or "refused" in line for line in service.log)
    assert stored_plants(service.database).keys() <= {1, 2}


def test_a_request_that_times_out_is_logged_once_as_a_request_timeout(tmp_path: Path) -> None:
    with Service(tmp_path, "--access-log", "--request-seconds", "0.5") as service:
        token = service.token()
        wire = Wire(service.port)
        wire.send(head(token, b"Content-Length: 100") + BODY)
        assert wire.answer()[0] == 408
        wire.close()

    lines = [json.loads(line) for line in service.log if line.startswith("{")]
    lines = [line for line in lines if line["event"] != "database created"]
    assert [line["status"] for line in lines if line["event"] == "request"] == [408]
    refused = [line["reason"] for line in lines if line["event"] == "refused"]
    assert refused == ["request_timeout"]


def test_a_tls_client_with_an_unfinished_request_is_disconnected_once(
    tmp_path: Path, tls: list[str]
) -> None:
    with Service(tmp_path, *tls, "--request-seconds", "0.5") as service:
        context = ssl.create_default_context()
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
        plain = socket.create_connection(("127.0.0.1", service.port))
        silent = context.wrap_socket(plain)
        silent.sendall(b"GET /hea")
        before = service.open_sockets()

        wait_until(lambda: service.open_sockets() < before)
        silent.close()

    assert sum("request_timeout" in line for line in service.log) == 1
