"""HTTPS, TLS handshakes, and errors in certificates and keys."""

import contextlib
import http.client
import re
import socket
import ssl
from pathlib import Path

import pytest

from plantstore.server.listener import HANDSHAKES_MAX
from support.certificates import Pair, make_pair
from support.command import run
from support.postgres import wait_until
from support.service import Service


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_plant_is_stored_over_https_and_plain_http_gets_no_response(
    tmp_path: Path, pair: Pair, workers: str
) -> None:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    with Service(tmp_path, *options, "--workers", workers) as service:
        context = ssl.create_default_context(cafile=str(pair.certificate))
        client = http.client.HTTPSConnection("127.0.0.1", service.port, context=context)
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {service.token()}"}
        client.request("POST", "/plants", '{"id":1,"name":"a"}', headers)
        answer = client.getresponse()
        assert (answer.status, answer.read()) == (200, b'{"name":"a"}')
        client.close()

        plain = http.client.HTTPConnection("127.0.0.1", service.port)
        plain.request("GET", "/healthz")
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            plain.getresponse()
        plain.close()

    assert any(line.startswith("Serving sqlite:///plants.db on https://") for line in service.log)
    assert "curl -i https://" in service.said


def test_a_tls_connection_that_begins_no_handshake_is_closed(tmp_path: Path, pair: Pair) -> None:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    with (
        Service(tmp_path, *options) as service,
        socket.create_connection(("127.0.0.1", service.port), timeout=30) as silent,
    ):
        assert silent.recv(1) == b""


def test_an_unusable_certificate_or_key_is_a_one_line_error(tmp_path: Path, pair: Pair) -> None:
    other = make_pair(tmp_path, "other")
    locked = make_pair(tmp_path, "locked", passphrase=True)
    (tmp_path / "garbage").write_bytes(b"\0garbage")
    for certificate, key in (
        (pair.certificate, None),
        (pair.certificate, other.key),
        (locked.certificate, locked.key),
        (tmp_path / "garbage", pair.key),
        (None, pair.key),
    ):
        options = [] if certificate is None else ["--tls-certificate", str(certificate)]
        options += [] if key is None else ["--tls-key", str(key)]

        done = run(tmp_path, "serve", "--port", "0", *options)

        assert done.returncode == 2
        assert re.fullmatch(r"plantstore: --tls-[^\n]*\n", done.stderr), done.stderr
        assert not done.stdout


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_pending_handshakes_are_bounded_and_a_new_one_is_served(
    tmp_path: Path, pair: Pair, begun: bytes
) -> None:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    with Service(tmp_path, *options) as service, contextlib.ExitStack() as stack:
        before = service.open_sockets()
        hanging = []
        for _ in range(HANDSHAKES_MAX + 50):
            connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
            connection.sendall(begun)
            hanging.append(stack.enter_context(connection))

        context = ssl.create_default_context(cafile=str(pair.certificate))
        client = http.client.HTTPSConnection("127.0.0.1", service.port, context=context)
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200

        assert service.open_sockets() <= before + HANDSHAKES_MAX + 5
        assert [connection.recv(1) for connection in hanging[:50]] == [b""] * 50
        client.close()


def test_a_stop_does_not_wait_for_a_handshake(tmp_path: Path, pair: Pair) -> None:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    with Service(tmp_path, *options) as service:
        before = service.open_sockets()
        hanging = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        hanging.sendall(b"\x16\x03\x01")
        wait_until(lambda: service.open_sockets() > before)

        assert service.stop() == 0

        hanging.close()
    assert not any("Traceback" in line or "rror" in line for line in service.log)


def test_a_failed_handshake_causes_no_error_in_the_log(tmp_path: Path, pair: Pair) -> None:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    with Service(tmp_path, *options) as service:
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x01\xff"):
            with socket.create_connection(("127.0.0.1", service.port), timeout=30) as connection:
                connection.sendall(data)
                connection.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    connection.recv(100)

    assert not any("Traceback" in line or "rror" in line for line in service.log)
