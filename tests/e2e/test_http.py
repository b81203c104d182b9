"""HTTP/1.1 conformance, tested with raw bytes on the real port."""

import contextlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.service import Service, stored_plants
from support.wire import Wire, head, with_length


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    with Service(tmp_path) as running:
        yield running


@pytest.fixture
def wire(service: Service) -> Iterator[Wire]:
    opened = Wire(service.port)
    yield opened
    opened.close()


UPGRADE = (b"Connection: Upgrade, HTTP2-Settings", b"Upgrade: h2c", b"HTTP2-Settings: AAMAAABk")


def test_a_bad_token_is_refused_before_the_body_arrives(wire: Wire) -> None:
    wire.send(head("x", b"Content-Length: 100"))

    assert wire.answer()[0] == 401


def test_a_body_announced_as_too_large_is_refused_before_it_arrives(
    service: Service, wire: Wire
) -> None:
    wire.send(head(service.token(), b"Content-Length: 65537"))

    assert wire.answer()[0] == 413


def test_100_continue_is_sent_only_for_an_authorized_request(service: Service, wire: Wire) -> None:
    length, body = with_length(b'{"id":1,"name":"a"}')
    wire.send(head("x", length, b"Expect: 100-continue"))
    assert wire.answer()[0] == 401

    other = Wire(service.port)
    other.send(head(service.token(), length, b"Expect: 100-continue"))
    assert other.answer()[0] == 100
    other.send(body)
    assert other.answer()[0] == 200
    other.close()


def test_a_chunked_body_over_the_limit_is_refused_before_it_ends(
    service: Service, wire: Wire
) -> None:
    wire.send(head(service.token(), b"Transfer-Encoding: chunked"))
    for _ in range(5):
        wire.send(b"4000\r\n" + b" " * 16_384 + b"\r\n")

    assert wire.answer()[0] == 413  # before the body has ended


@pytest.mark.parametrize("size", [7, 1, 10_000])
def test_an_offer_to_upgrade_is_ignored_and_the_request_served(
    service: Service, wire: Wire, size: int
) -> None:
    token = service.token()
    length, body = with_length(b'{"id":1,"name":"a"}')
    chunked = b"13\r\n%s\r\n0\r\n\r\n" % body.replace(b"1", b"2")
    data = (
        head(token, *UPGRADE, length)
        + body
        + head(token, *UPGRADE, b"Transfer-Encoding: chunked")
        + chunked
        + head(token, length)
        + body
    )

    for start in range(0, len(data), size):
        wire.send(data[start : start + size])

    assert [wire.answer()[0] for _ in range(3)] == [200, 200, 200]
    assert stored_plants(service.database) == {1: NewPlant(1, "a"), 2: NewPlant(2, "a")}


def test_pipelined_requests_are_answered_in_order(service: Service, wire: Wire) -> None:
    token = service.token()
    data = b""
    for id_ in range(200):
        length, body = with_length(b'{"id":%d,"name":"%d"}' % (id_, id_))
        data += head(token, length) + body

    wire.send(data)

    answers = [wire.answer() for _ in range(200)]
    assert [json.loads(body)["name"] for _, _, body in answers] == [str(id_) for id_ in range(200)]


NO_HTTP = [
    b"GARBAGE\r\n\r\n",
    b"GET /\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /plants?\xff HTTP/1.1\r\nHost: x\r\n\r\n",
    b"CONNECT plants:443 HTTP/1.1\r\nHost: x\r\n\r\n",
    head(None, b"Content-Length: x"),
    head(None, b"Content-Length: 1", b"Content-Length: 2"),
    head(None, b"Content-Length: 1", b"Transfer-Encoding: chunked"),
    b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    b"CONNECT http://x/plants HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /plants HTTP/2.0\r\nHost: x\r\n\r\n",
    b"GET /plants HTTP/0.9\r\nHost: x\r\n\r\n",
    b"GET /plants HTTP/1.1\r\n\r\n",
    b"GET /plants HTTP/1.1\r\nHost: x\r\nHost: x\r\n\r\n",
    b"GET  /plants HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /plants  HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /plants HTTP/1.1 \r\nHost: x\r\n\r\n",
    b"GET /plants#1 HTTP/1.1\r\nHost: x\r\n\r\n",
    b"DESCRIBE /plants RTSP/1.0\r\nHost: x\r\n\r\n",
    b"SOURCE /plants ICE/1.0\r\nHost: x\r\n\r\n",
    b"GET /plants HTTP/1.1\r\nHost: a b/c\r\n\r\n",
    b"GET /plants HTTP/1.1\r\nHost: ann@x\r\n\r\n",
    b"GET /plants HTTP/1.1\r\nHost: x:y\r\n\r\n",
    b"GET /plants HTTP/1.1\r\nHost: [::1\r\n\r\n",
    b"POST /plants HTTP/1.0\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
    head(None, b"Transfer-Encoding: chunked", b"Transfer-Encoding: chunked"),
    head(None, b"Transfer-Encoding: gzip", b"Transfer-Encoding: chunked"),
    head(None, b"Transfer-Encoding: chunked, chunked"),
    head(None, b"Transfer-Encoding: chunked, gzip"),
    head(None, b"Content-Type: text/csv"),
    head("x", b"Authorization: Bearer y"),
]


def test_malformed_http_is_400_with_an_error_record_and_closes_the_connection(
    service: Service,
) -> None:
    for data in NO_HTTP:
        with contextlib.closing(Wire(service.port)) as wire:
            wire.send(data)

            status, headers, body = wire.answer()

            assert status == 400, data
            assert headers[b"content-type"] == b"application/json"
            assert json.loads(body)["error"] == 3001
            assert wire.is_closed()


@pytest.mark.parametrize("coding", [b"gzip, chunked", b"identity, chunked"])
def test_an_unknown_transfer_coding_is_501(wire: Wire, coding: bytes) -> None:
    wire.send(head(None, b"Transfer-Encoding: " + coding) + b"0\r\n\r\n")

    status, _, body = wire.answer()

    assert (status, json.loads(body)["error"]) == (501, 3009)
    assert wire.is_closed()


UNUSUAL_HTTP = [
    b"GET /healthz HTTP/1.1\r\nHost:\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: [::1]:8000\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: pl%C3%A4nts_1.example.:80\r\n\r\n",
    b"GET /healthz HTTP/1.0\r\n\r\n",
    b"\r\n\r\nGET /healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET http://plants/healthz HTTP/1.1\r\nHost: x\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: Chunked\r\n\r\n0\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\t \t\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked \r\n\r\n0\r\n\r\n",
    b"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 1 \t\r\n\r\ny",
]


def test_unusual_http_is_served(service: Service) -> None:
    for data, size in itertools.product(UNUSUAL_HTTP, [1, 10_000]):
        with contextlib.closing(Wire(service.port)) as wire:
            for start in range(0, len(data), size):
                wire.send(data[start : start + size])

            assert wire.answer()[0] == 200, data


@pytest.mark.parametrize(
    ("around", "status"),
    [(b" \t", 200), (b"\xa0", 400), (b"\xc2\xa0", 400), (b"\xe2\x80\x83", 400)],
)
def test_only_spaces_and_tabs_around_the_value_of_a_field_are_ignored(
    service: Service, wire: Wire, around: bytes, status: int
) -> None:
    token = service.token()
    length, body = with_length(b'{"id":1,"name":"a"}')
    wire.send(head(token, length) + body)
    assert wire.answer()[0] == 200

    request = head(token, length, b"If-Match:%b*%b" % (around, around)) + body
    wire.send(request.replace(b"POST /plants", b"PUT /plants/1"))

    assert wire.answer()[0] == status


@pytest.mark.parametrize("path", [b"//plants", b"/healthz", b"/nothing", b"/plants", b"/"])
def test_a_response_to_head_has_no_body(wire: Wire, path: bytes) -> None:
    request = b"%b %b HTTP/1.1\r\nHost: plants\r\n\r\n"
    wire.send(request % (b"HEAD", path) + request % (b"GET", path))

    while wire.file.readline() != b"\r\n":
        pass

    assert wire.file.peek(9).startswith(b"HTTP/1.1 ")


def test_a_truncated_body_is_not_stored_even_if_it_is_valid_json(
    service: Service, wire: Wire
) -> None:
    token = service.token()
    length, body = with_length(b'{"id":1,"name":"a"}')
    # The service caches the token, so later requests wait for nothing before their body is read.
    wire.send(head(token, length) + body.replace(b"1", b"9"))
    assert wire.answer()[0] == 200
    short = Wire(service.port)
    short.send(head(token, b"Content-Length: 100") + body)
    short.close()
    open_ended = Wire(service.port)
    open_ended.send(head(token, b"Transfer-Encoding: chunked") + b"13\r\n%s\r\n" % body)
    open_ended.close()

    wire.send(head(token, b"Transfer-Encoding: chunked") + b"13\r\n%s\r\nZZ\r\n" % body)

    assert wire.answer()[0] == 400
    assert wire.is_closed()
    assert service.stop() == 0
    assert stored_plants(service.database) == {9: NewPlant(9, "a")}


@pytest.mark.parametrize("size", [10_000, 5])
def test_a_token_in_a_trailer_field_is_ignored(service: Service, wire: Wire, size: int) -> None:
    trailer = b"Authorization: Bearer " + service.token().encode()
    chunked = b'13\r\n{"id":1,"name":"a"}\r\n0\r\n%s\r\n\r\n' % trailer
    data = head(None, b"Transfer-Encoding: chunked") + chunked

    for start in range(0, len(data), size):
        wire.send(data[start : start + size])

    assert wire.answer()[0] == 401


def test_garbage_behind_a_request_gets_a_response_of_its_own(service: Service, wire: Wire) -> None:
    length, body = with_length(b'{"id":1,"name":"a"}')

    wire.send(head(service.token(), length) + body + b"GARBAGE\r\n\r\n")

    assert [wire.answer()[0] for _ in range(2)] == [200, 400]
    assert wire.is_closed()


def test_a_malformed_body_after_the_response_gets_no_second_response(
    wire: Wire,
) -> None:
    wire.send(head(None, b"Transfer-Encoding: chunked"))
    assert wire.answer()[0] == 401

    wire.send(b"ZZ\r\n")

    assert wire.is_closed()


def test_data_responses_forbid_caching_and_content_sniffing(service: Service) -> None:
    fields = {}
    for token in (service.token(), None):
        client = service.client(token)
        for method, path in itertools.product(
            ["GET", "HEAD", "OPTIONS", "DELETE"], ["/plants", "/plants/1", "/healthz", "/none"]
        ):
            headers = client.send(method, path).headers
            fields[token, method, path] = (
                headers["cache-control"],
                headers["x-content-type-options"],
            )
        client.close()

    assert set(fields.values()) == {("no-store", "nosniff")}


def test_pages_and_their_assets_forbid_content_sniffing(service: Service) -> None:
    client = service.client(None)
    documents = [client.send("GET", path) for path in ("/", "/docs")]
    names = [re.findall(rb"(?:src|href)=.(assets/[^\"']+)", page.body) for page in documents]
    files = [client.send("GET", f"/{name.decode()}") for [name, *_] in names]
    client.close()

    for answer in documents + files:
        assert answer.status == 200
        assert answer.headers["x-content-type-options"] == "nosniff"
    assert [answer.headers["cache-control"] for answer in documents] == ["no-cache"] * 2
    assert all("immutable" in answer.headers["cache-control"] for answer in files)


def test_refusals_of_malformed_http_forbid_caching_and_content_sniffing(wire: Wire) -> None:
    wire.send(b"GARBAGE\r\n\r\n")

    _, headers, _ = wire.answer()

    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"cache-control"] == b"no-store"


def test_a_request_unfinished_at_the_end_of_a_stop_is_503(tmp_path: Path) -> None:
    with Service(tmp_path, "--stop-seconds", "1") as service:
        wire = Wire(service.port)
        wire.send(head(service.token(), b"Content-Length: 100", b"Expect: 100-continue"))
        assert wire.answer()[0] == 100
        assert service.stop() == 0
        status, headers, body = wire.answer()
        wire.close()

    assert (status, headers[b"retry-after"]) == (503, b"1")
    assert json.loads(body)["error"] == 5003
    assert not any("Traceback" in line for line in service.log)


def test_a_client_that_disconnects_within_a_body_stores_nothing_and_affects_no_other_client(
    service: Service, wire: Wire
) -> None:
    token = service.token()
    length, body = with_length(b'{"id":1,"name":"a"}')
    for end in range(len(body)):
        leaver = Wire(service.port)
        leaver.send(head(token, length) + body[:end])
        leaver.close()

    wire.send(head(token, length) + body.replace(b"1", b"2"))

    assert wire.answer()[0] == 200
    assert stored_plants(service.database) == {2: NewPlant(2, "a")}
