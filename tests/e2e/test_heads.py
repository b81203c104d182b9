"""Limits on the size of a request head, on its fields and on trailer fields."""

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from support.service import Service, stored_plants
from support.wire import Wire, assert_refused, head, send_until_refused, with_length

HEAD_BYTES_MAX = 32 * 1024
FIELDS_MAX = 100
BODY = b'{"id":1,"name":"a"}'


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    # A long timeout, so that only a size limit can end a request.
    with Service(tmp_path, "--request-seconds", "3600") as running:
        yield running


def peak_memory(service: Service) -> int:
    """Return the peak resident memory of the server, in MiB."""
    lines = Path(f"/proc/{service.process.pid}/status").read_text(encoding="ascii").splitlines()
    [kib] = [line.split()[1] for line in lines if line.startswith("VmHWM")]
    return int(kib) // 1024


@pytest.mark.parametrize("size", [7, HEAD_BYTES_MAX])
def test_a_head_of_the_maximum_size_is_accepted_and_a_larger_one_is_431(
    service: Service, connect: Callable[[], Wire], size: int
) -> None:
    token = service.token()
    length, body = with_length(BODY)
    plain = head(token, length)
    room = HEAD_BYTES_MAX - len(plain) - len("X: \r\n")
    for padding, status in ((room, 200), (room + 1, 431)):
        wire = connect()
        data = plain[:-2] + b"X: " + b"x" * padding + b"\r\n\r\n" + body
        for start in range(0, len(data), size):
            with contextlib.suppress(OSError):
                wire.send(data[start : start + size])
        assert wire.answer()[0] == status


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"x" * 4096),
        (b"GET / HTTP/1.1\r\nHost: x\r\n", b"X: y\r\n" * 500),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"y" * 4096),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX", b"y" * 4096),
        (b"", b"\r\n" * 2048),
    ],
    ids=["target", "fields", "value", "name", "nothing"],
)
def test_an_endless_head_is_refused_before_it_fills_the_memory(
    service: Service, connect: Callable[[], Wire], begin: bytes, more: bytes
) -> None:
    wire = connect()
    before = peak_memory(service)
    wire.send(begin)

    # Bytes in the socket buffers of both sides count as sent.
    assert send_until_refused(wire, more) < 16 * 1024 * 1024
    assert peak_memory(service) < before + 8


def test_endless_trailer_fields_are_refused(service: Service, connect: Callable[[], Wire]) -> None:
    token = service.token()
    before = peak_memory(service)
    wire = connect()
    wire.send(head(token, b"Transfer-Encoding: chunked") + b"13\r\n%s\r\n0\r\n" % BODY)

    assert send_until_refused(wire, b"X: y\r\n" * 500) < 16 * 1024 * 1024
    assert peak_memory(service) < before + 8
    assert not stored_plants(service.database)


def test_ten_thousand_fields_and_a_huge_path_are_431(connect: Callable[[], Wire]) -> None:
    wire = connect()
    wire.send(b"GET / HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * 10_000 + b"\r\n")
    assert_refused(wire, 431, 3008)

    wire = connect()
    wire.send(b"GET /" + b"x" * 100_000 + b" HTTP/1.1\r\nHost: x\r\n\r\n")
    assert_refused(wire, 431, 3008)


@pytest.mark.parametrize(("fields", "status"), [(FIELDS_MAX, 200), (FIELDS_MAX + 1, 431)])
def test_a_head_with_more_than_a_hundred_fields_is_431(
    connect: Callable[[], Wire], fields: int, status: int
) -> None:
    wire = connect()

    wire.send(b"GET /healthz HTTP/1.1\r\nHost: x\r\n" + b"X: y\r\n" * (fields - 1) + b"\r\n")

    assert wire.answer()[0] == status


def test_the_framing_of_one_byte_chunks_does_not_count_as_head(
    service: Service, connect: Callable[[], Wire]
) -> None:
    token = service.token()
    wire = connect()
    body = BODY.replace(b'"a"', b'"%s"' % (b"a" * 10_000))
    wire.send(head(token, b"Transfer-Encoding: chunked"))
    wire.send(b"".join(b"1;%s\r\n%c\r\n" % (b"x" * 10, byte) for byte in body) + b"0\r\n\r\n")

    assert wire.answer()[0] == 200
