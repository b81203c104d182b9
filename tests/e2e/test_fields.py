"""Arbitrary header field values cause no server error."""

from collections.abc import Iterator

import pytest

from support.service import Service
from support.wire import Wire

FIELDS = [
    b"Accept",
    b"Accept-Charset",
    b"Accept-Encoding",
    b"Accept-Language",
    b"Authorization",
    b"Connection",
    b"Content-Encoding",
    b"Content-Length",
    b"Content-Type",
    b"Cookie",
    b"Date",
    b"Expect",
    b"Forwarded",
    b"Host",
    b"If-Match",
    b"If-Modified-Since",
    b"If-None-Match",
    b"If-Range",
    b"If-Unmodified-Since",
    b"Origin",
    b"Range",
    b"Referer",
    b"TE",
    b"Transfer-Encoding",
    b"Upgrade",
    b"X-Forwarded-For",
    b"X-Forwarded-Host",
    b"traceparent",
]

VALUES = [
    b"",
    b"x",
    b",",
    b";",
    b"=",
    b'"',
    b'W/"',
    b'W/"a", "b',
    b"*",
    b"*/*;q=x",
    b"a/b;version=x",
    b"application/openmetrics-text;version=x",
    b"text/plain;version=1.x",
    b"application/json;charset=\xff",
    b"-1",
    b"9" * 5000,
    b"1_0",
    b"bytes=9-1",
    b"bytes=-",
    b"Bearer",
    b"Bearer \xe9\xff",
    b"Bearer plst_" + b"\xb2" * 36,
    b"Thu, 99 Foo 99999 99:99:99 GMT",
    b"00-" + b"g" * 32 + b"-1-1",
    b"\x80\xff",
    b"%00%ff",
    b"[::1",
    b";" * 10_000,
    b'"' + b";" * 10_000,
    b"a," * 10_000,
]

TARGETS = [
    b"GET /metrics",
    b"GET /plants",
    b"GET /",
    b"GET /openapi.json",
    b"POST /plants",
]


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("fields"), "--request-seconds", "0.5") as service:
        yield service


@pytest.mark.parametrize("field", FIELDS, ids=bytes.decode)
def test_garbage_in_a_header_field_causes_no_server_error(field: bytes, shared: Service) -> None:
    token = shared.token(name=field.decode())
    body = b'{"id":1,"name":"a"}'
    answered: list[tuple[bytes, bytes, int]] = []

    for target in TARGETS:
        for value in VALUES:
            fields = {
                b"Host": b"plants",
                b"Authorization": b"Bearer " + token.encode(),
                b"Content-Type": b"application/json",
                b"Connection": b"close",
            }
            fields |= {b"Content-Length": b"%d" % len(body)} if target[:4] == b"POST" else {}
            fields |= {field: value}
            lines = [target + b" HTTP/1.1", *(b"%s: %s" % each for each in fields.items())]
            wire = Wire(shared.port)
            wire.send(b"\r\n".join([*lines, b"", body if target[:4] == b"POST" else b""]))
            answered.append((target, value, wire.answer()[0]))
            wire.close()

    assert len(answered) == len(TARGETS) * len(VALUES)
    # 501 is the status for an unknown transfer coding (RFC 9112 §6.1).
    assert [each for each in answered if not (200 <= each[2] < 500 or each[2] == 501)] == []
