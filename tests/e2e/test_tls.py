"""HTTPS, and what is wrong with a certificate."""

import http.client
import re
import socket
import ssl
from pathlib import Path

import pytest

from certificates import Pair, make_pair
from command import run
from service import Service

pytestmark = pytest.mark.engines("sqlite")


@pytest.fixture
def pair(tmp_path: Path) -> Pair:
    return make_pair(tmp_path)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_plant_is_stored_over_https_and_http_gets_nothing(
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


def test_a_handshake_that_nobody_begins_is_not_waited_for(tmp_path: Path, pair: Pair) -> None:
    options = ["--tls-certificate", str(pair.certificate), "--tls-key", str(pair.key)]
    with (
        Service(tmp_path, *options) as service,
        socket.create_connection(("127.0.0.1", service.port), timeout=30) as silent,
    ):
        assert silent.recv(1) == b""


def test_what_cannot_be_served_with_is_said_in_one_line(tmp_path: Path, pair: Pair) -> None:
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

        assert done.returncode == 1
        assert re.fullmatch(r"plantstore: [^\n]* TLS [^\n]*\n", done.stderr), done.stderr
        assert not done.stdout
