"""HTTP/1.1 on the real port, in raw bytes: framing, heads, fields and bodies."""

import itertools
from collections.abc import Callable

import pytest

from support.postgres import wait_until
from support.service import Service, stored_plants
from support.wire import Wire, assert_refused, head, with_length

# A long timeout, so that only its bytes can end a request.
pytestmark = pytest.mark.serve("--request-seconds", "3600")

BODY = b'{"id":1,"name":"a"}'
CHUNK = b"13\r\n%s\r\n" % BODY


@pytest.fixture
def wire(connect: Callable[[], Wire]) -> Wire:
    return connect()


def test_a_bad_token_is_refused_before_the_body_arrives(wire: Wire) -> None:
    wire.send(head("x", b"Content-Length: 100", b"Expect: 100-continue"))

    assert wire.answer()[0] == 401


def test_a_truncated_body_is_not_stored_even_if_it_is_valid_json(
    service: Service, token: str, connect: Callable[[], Wire]
) -> None:
    """The service has cached the token, so it waits for nothing before it reads these bodies."""
    length, body = with_length(BODY)
    wire = connect()
    wire.send(head(token, length) + body)
    assert wire.answer()[0] == 200
    before = service.open_sockets()
    truncated = body.replace(b"1", b"9")
    endless = head(token, b"Transfer-Encoding: chunked") + CHUNK.replace(b"1,", b"9,")
    whole = head(token, b"Content-Length: 100") + truncated
    short = [head(token, length) + truncated[:end] for end in range(len(body))]

    for data in (whole, endless, *short):
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
    token: str, wire: Wire, second: bytes, status: int
) -> None:
    length, body = with_length(BODY)

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


@pytest.mark.parametrize("target", [b"GET /metrics", b"GET /plants", b"POST /plants"])
def test_garbage_in_a_header_field_causes_no_server_error(
    service: Service, token: str, target: bytes
) -> None:
    body = BODY if target.startswith(b"POST") else b""
    answered: list[tuple[bytes, bytes, int]] = []

    for field, value in itertools.product(FIELDS, VALUES):
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
