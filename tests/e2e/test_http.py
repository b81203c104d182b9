"""HTTP/1.1 on the real port: malformed bytes, and bounds on memory and connections.

tests/unit has the rules. tests/long measures what each connection keeps.
"""

import contextlib
import itertools
import resource
from pathlib import Path

import pytest

from plantstore.api.static_files import load_web
from plantstore.plants import NewPlant
from support.postgres import wait_until
from support.service import Service, serving, stored_plants
from support.wire import Wire, assert_refused, head, with_length

# A long timeout, so that only its bytes can end a request.
pytestmark = pytest.mark.serve("--request-seconds", "3600")

BODY = b'{"id":1,"name":"a"}'
CHUNK = b"13\r\n%s\r\n" % BODY


def test_a_truncated_body_is_not_stored_even_if_it_is_valid_json(
    service: Service, token: str
) -> None:
    """The service has cached the token, so it waits for nothing before it reads these bodies."""
    length, body = with_length(BODY)
    truncated = body.replace(b"1", b"9")
    endless = head(token, b"Transfer-Encoding: chunked") + CHUNK.replace(b"1,", b"9,")
    whole = head(token, b"Content-Length: 100") + truncated
    with Wire(service.port) as wire:
        wire.send(head(token, length) + body)
        assert wire.answer()[0] == 200
        before = service.open_sockets()

        for data in (whole, endless, head(token, length) + truncated[:-1]):
            with Wire(service.port) as leaver:
                leaver.send(data)
        wire.send(endless + b"ZZ\r\n")

        assert_refused(wire, 400, 3001)
    wait_until(lambda: service.open_sockets() < before)
    assert 9 not in stored_plants(service.database)


@pytest.mark.parametrize(
    ("second", "status"),
    [
        (b"GARBAGE\r\n\r\n", 400),
        (head(None, b"Transfer-Encoding: chunked") + b"ZZ\r\n", 400),
        (b"GET /%b HTTP/1.1\r\n\r\n" % (b"x" * 40_000), 431),
    ],
    ids=["no head", "no chunk", "large head"],
)
def test_a_create_is_answered_before_the_malformed_request_behind_it_is_refused(
    service: Service, token: str, second: bytes, status: int
) -> None:
    length, body = with_length(BODY)
    with Wire(service.port) as wire:
        wire.send(head(token, length) + body + second)

        assert [wire.answer()[0] for _ in range(2)] == [200, status]
        assert wire.is_closed()


FIELDS = [
    *(b"Accept", b"Accept-Encoding", b"Authorization", b"Connection", b"Content-Encoding"),
    *(b"Content-Length", b"Content-Type", b"Expect", b"Forwarded", b"Host", b"If-Match"),
    *(b"If-None-Match", b"Origin", b"Range", b"TE", b"Transfer-Encoding", b"Upgrade"),
    *(b"X-Forwarded-For", b"X-Request-Id", b"traceparent"),
]

VALUES = [
    *(b"", b"x", b",", b";", b"=", b'"', b'W/"', b'W/"a", "b', b"*", b"*/*;q=x", b"a/b;version=x"),
    *(b"application/openmetrics-text;version=x", b"text/plain;version=1.x"),
    *(b"application/json;charset=\xff", b"-1", b"9" * 5000, b"1_0", b"bytes=9-1", b"bytes=-"),
    *(b"Bearer", b"Bearer \xe9\xff", b"Bearer plst_" + b"\xb2" * 36, b"\x80\xff", b"%00%ff"),
    *(b"Thu, 99 Foo 99999 99:99:99 GMT", b"00-" + b"g" * 32 + b"-1-1", b"[::1"),
    *(b";" * 10_000, b'"' + b";" * 10_000, b"a," * 10_000),
]


def test_garbage_in_a_header_field_causes_no_server_error(service: Service, token: str) -> None:
    """Each value is sent to one of three operations in turn."""
    targets = itertools.cycle([b"GET /metrics", b"GET /plants", b"POST /plants"])
    answered: list[tuple[bytes, bytes, int]] = []

    for field, value in itertools.product(FIELDS, VALUES):
        target = next(targets)
        body = BODY if target.startswith(b"POST") else b""
        fields = {
            b"Host": b"plants",
            b"Authorization": b"Bearer " + token.encode(),
            b"Content-Type": b"application/json",
            b"Connection": b"close",
        }
        fields |= {b"Content-Length": b"%d" % len(body)} if body else {}
        fields |= {field: value}
        lines = [target + b" HTTP/1.1", *(b"%s: %s" % each for each in fields.items())]
        with Wire(service.port) as wire:
            wire.send(b"\r\n".join([*lines, b"", body]))
            answered.append((field, value, wire.answer()[0]))

    assert len(answered) == len(FIELDS) * len(VALUES)
    # 501 is the status for an unknown transfer coding (RFC 9112 §6.1).
    assert [each for each in answered if not (200 <= each[2] < 500 or each[2] == 501)] == []


def create(service: Service, token: str, id_: int) -> None:
    """Create a small plant, on a new connection."""
    with service.client(token) as client:
        assert client.post(NewPlant(id_, "a")).status == 200


ATTACKED = ("--public-read", "--request-seconds", "3600", "--stop-seconds", "1")


def test_unfinished_bodies_are_bounded_in_total_and_small_requests_are_served(
    tmp_path: Path,
) -> None:
    """Without a bound, the bodies take 100 MiB more."""
    with Service(tmp_path, *ATTACKED) as service, contextlib.ExitStack() as stack:
        token = service.token()
        create(service, token, 2)
        before = service.resident_mib()
        unfinished = head(token, b"Content-Length: 16384") + b" " * 16_383
        for _ in range(2_500):
            with contextlib.suppress(OSError):
                stack.enter_context(Wire(service.port)).send(unfinished)

        create(service, token, 3)
        assert service.resident_mib() < before + 2 * 2 * 32 + 85
        service.wait_for_log("overloaded")


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
