"""HTTPS, TLS handshakes, and errors in certificates and keys."""

import contextlib
import http.client
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.server.listener import HANDSHAKES_MAX
from support.certificates import Pair, make_pair
from support.command import call
from support.service import Service


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("tls"))


@contextlib.contextmanager
def connected(service: Service, pair: Pair) -> Iterator[http.client.HTTPSConnection]:
    client = http.client.HTTPSConnection("127.0.0.1", service.port, context=pair.trusted())
    with contextlib.closing(client):
        yield client


def test_a_plant_is_stored_over_https_and_plain_http_gets_no_response(
    tmp_path: Path, pair: Pair
) -> None:
    with Service(tmp_path, *pair.options(), "--workers", "2") as service:
        headers = {"Content-Type": "application/json", "Authorization": f"Bearer {service.token()}"}
        with connected(service, pair) as client:
            client.request("POST", "/plants", '{"id":1,"name":"a"}', headers)
            answer = client.getresponse()
            assert (answer.status, answer.read()) == (200, b'{"name":"a"}')

        plain = http.client.HTTPConnection("127.0.0.1", service.port)
        plain.request("GET", "/healthz")
        with pytest.raises((ConnectionError, http.client.HTTPException)):
            plain.getresponse()
        plain.close()

    assert any(line.startswith("Serving sqlite:///plants.db on https://") for line in service.log)
    assert "curl -i https://" in service.said


@pytest.mark.parametrize("begun", [b"", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"])
def test_pending_handshakes_are_bounded_and_closed_and_a_new_one_is_served(
    tmp_path: Path, pair: Pair, begun: bytes
) -> None:
    with (
        Service(tmp_path, *pair.options(), "--request-seconds", "1") as service,
        contextlib.ExitStack() as stack,
    ):
        before = service.open_sockets()
        hanging = []
        for _ in range(HANDSHAKES_MAX + 50):
            connection = socket.create_connection(("127.0.0.1", service.port), timeout=30)
            connection.sendall(begun)
            hanging.append(stack.enter_context(connection))

        client = stack.enter_context(connected(service, pair))
        client.request("GET", "/healthz")
        assert client.getresponse().status == 200

        assert service.open_sockets() <= before + HANDSHAKES_MAX + 5
        # The first ones make room for others, and the last one is too slow.
        assert [connection.recv(1) for connection in (*hanging[:50], hanging[-1])] == [b""] * 51


def test_failed_handshakes_cause_no_error_in_the_log_and_a_stop_waits_for_none(
    tmp_path: Path, pair: Pair
) -> None:
    with Service(tmp_path, *pair.options()) as service:
        hanging = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        hanging.sendall(b"\x16\x03\x01")
        for data in (b"", b"GET / HTTP/1.1\r\n\r\n", b"\x16\x03\x01\x00\x01\xff"):
            with socket.create_connection(("127.0.0.1", service.port), timeout=30) as failing:
                failing.sendall(data)
                failing.shutdown(socket.SHUT_WR)
                with contextlib.suppress(ConnectionError):
                    failing.recv(100)

        assert service.stop() == 0

        hanging.close()
    assert not any("Traceback" in line or "rror" in line for line in service.log)


def test_an_unusable_certificate_or_key_is_a_one_line_error_that_names_the_mistake(
    tmp_path: Path, pair: Pair
) -> None:
    other = make_pair(tmp_path, "other")
    locked = make_pair(tmp_path, "locked", passphrase=True)
    damaged = tmp_path / "damaged.pem"
    damaged.write_bytes(pair.certificate.read_bytes() + pair.key.read_bytes()[:60])
    alone = ["--tls-certificate", str(pair.certificate)]
    for options, mistake in (
        (alone, "has no private key in PEM; name its file with --tls-key"),
        (["--tls-certificate", str(damaged)], "cannot be used"),
        (
            Pair(pair.certificate, pair.certificate).options(),
            f"--tls-key: {pair.certificate} has no private key",
        ),
        (
            Pair(pair.key, pair.key).options(),
            f"--tls-certificate: {pair.key} has no certificate in PEM",
        ),
        ([*alone, "--tls-key", str(other.key)], f"{other.key} is not the key of the certificate"),
        (locked.options(), f"--tls-key: {locked.key} has a passphrase"),
    ):
        done = call(tmp_path, "serve", "--port", "0", *options)

        assert done.returncode == 2
        assert re.fullmatch(r"plantstore: --tls-[^\n]*\n", done.stderr), done.stderr
        assert mistake in done.stderr
        assert "_ssl.c" not in done.stderr
        assert not done.stdout
