"""HTTP/1.1 and HTTPS on the real port: bounds on memory and connections.

tests/unit has the rules. tests/long measures what each connection keeps.
"""

import contextlib
import http.client
import re
import resource
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.api.static_files import load_web
from plantstore.plants import NewPlant
from plantstore.server.serving import HANDSHAKES_MAX
from support.certificates import Pair, make_pair
from support.command import call
from support.service import Service, serving
from support.wire import Wire


def create(service: Service, token: str, id_: int) -> None:
    """Create a small plant, on a new connection."""
    with service.client(token) as client:
        assert client.post(NewPlant(id_, "a")).status == 200


ATTACKED = ("--public-read", "--request-seconds", "3600", "--stop-seconds", "1")


# A page of plants with the largest names as JSON has half a mebibyte.
@pytest.mark.parametrize(
    "target",
    ["/plants?limit=1000", f"/assets/{load_web().assets.digest}/swagger-ui-bundle.js"],
    ids=["pages", "files"],
)
def test_unread_responses_are_bounded_in_total_without_a_token(tmp_path: Path, target: str) -> None:
    """Without a bound, the responses take 150 MiB, and the files 500."""
    with Service(tmp_path, *ATTACKED) as service, contextlib.ExitStack() as stack:
        service.change(*[NewPlant(id_, f"{id_}" + "\x01" * 2_600) for id_ in range(400)])
        token = service.token()
        create(service, token, 1_001)
        before = service.resident_mib()
        for _ in range(150):
            wire = stack.enter_context(Wire(service.port))
            wire.send(f"GET {target} HTTP/1.1\r\nHost: x\r\n\r\n".encode() * 20)
            if "plants" in target:
                wire.socket.recv(1)

        create(service, token, 1_002)
        assert service.resident_mib() < before + 64 + 32 + 2


def test_without_free_file_descriptors_new_connections_wait_and_open_ones_are_served(
    tmp_path: Path,
) -> None:
    with serving(tmp_path) as (service, connected):
        assert connected.send("GET", "/healthz").status == 200
        files_max = len(service.open_files()) + 5
        resource.prlimit(service.process.pid, resource.RLIMIT_NOFILE, (files_max, files_max))

        with contextlib.ExitStack() as stack:
            for _ in range(20):
                stack.enter_context(Wire(service.port))
            assert connected.send("GET", "/healthz").status == 200

        with service.client(None) as new:
            assert new.send("GET", "/healthz").status == 200


# TLS: handshakes, certificates and keys.


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
    assert not any("Traceback" in line or "rror" in line for line in service.log)


def test_a_client_that_asks_for_new_keys_again_and_again_is_disconnected(
    tmp_path: Path, pair: Pair
) -> None:
    updates = 0
    with Service(tmp_path, *pair.options()) as service:
        command = ["openssl", "s_client", "-connect", f"127.0.0.1:{service.port}"]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
        ) as client:
            assert client.stdin
            assert client.stderr
            with contextlib.suppress(BrokenPipeError), client.stdin:
                while updates < 1000:
                    client.stdin.write(b"K\n")
                    client.stdin.flush()
                    if b"KEYUPDATE\n" not in iter(client.stderr.readline, b""):
                        break
                    updates += 1

    assert 10 < updates < 1000


def test_a_key_is_not_refused_for_a_text_before_it(tmp_path: Path, pair: Pair) -> None:
    """The text beside a PEM block is a comment (RFC 7468 §2)."""
    key = tmp_path / "commented.key"
    key.write_text(f"This key is NOT ENCRYPTED.\n{pair.key.read_text('ascii')}", "ascii")

    options = Pair(pair.certificate, key).options()
    with Service(tmp_path, *options) as service, connected(service, pair) as client:
        client.request("GET", "/healthz")

        assert client.getresponse().status == 200


def test_pending_handshakes_are_bounded_and_closed_and_a_new_one_is_served(
    tmp_path: Path, pair: Pair
) -> None:
    begun = b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"
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
        late = socket.create_connection(("127.0.0.1", service.port), timeout=30)
        stack.enter_context(late).sendall(begun)
        assert service.stop() == 0


def test_an_unusable_certificate_or_key_is_a_one_line_error_that_names_the_mistake(
    tmp_path: Path, pair: Pair
) -> None:
    other = make_pair(tmp_path, "other")
    locked = make_pair(tmp_path, "locked", passphrase=True)
    older = tmp_path / "older.key"
    convert = ["openssl", "ec", "-in", str(pair.key), "-out", str(older), "-aes128"]
    subprocess.run([*convert, "-passout", "pass:secret"], check=True, capture_output=True)
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
        ([*alone, "--tls-key", str(older)], f"--tls-key: {older} has a passphrase"),
    ):
        done = call(tmp_path, "serve", "--port", "0", *options)

        assert done.returncode == 2
        assert re.fullmatch(r"plantstore: --tls-[^\n]*\n", done.stderr), done.stderr
        assert mistake in done.stderr
        assert "_ssl.c" not in done.stderr
        assert not done.stdout
