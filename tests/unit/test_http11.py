"""HTTP/1.1 requests from bytes to events, and responses to bytes. These tests use no socket."""

from collections.abc import Iterable, Sequence
from itertools import pairwise

import h11
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plantstore.errors import ErrorCode, RequestError
from plantstore.server.http11 import (
    END,
    FIELDS_MAX,
    HEAD_BYTES_MAX,
    NEED_DATA,
    READ_FIELDS,
    VALUE_BYTES_MAX,
    Head,
    HeadRefusedError,
    RequestReader,
    WholeRequest,
    parse_head,
    render_head,
)

HEAD = b"POST /plants?a=1 HTTP/1.1\r\nHost: x\r\n%b\r\n"


def with_length(body: bytes) -> bytes:
    return HEAD % (b"Content-Length: %d\r\n" % len(body)) + body


def in_chunks(body: bytes, trailer: bytes = b"") -> bytes:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    return HEAD % b"Transfer-Encoding: chunked\r\n" + chunks + b"0\r\n" + trailer + b"\r\n"


BODIES = st.binary(max_size=40) | st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"x"]), max_size=12
).map(b"".join)
REQUESTS = st.one_of(
    BODIES.map(with_length),
    BODIES.map(in_chunks),
    BODIES.map(lambda body: in_chunks(body, b"X: y\r\n")),
    st.just(HEAD % b"Upgrade: h2c\r\nConnection: Upgrade\r\nContent-Length: 1\r\n" + b"z"),
    st.just(b"\r\n" + HEAD % b""),
)
CUTS = st.lists(st.integers(0, 400), max_size=20)

# Method, target, fields by their names, and body of a request.
Fields = dict[bytes, bytes]
Message = tuple[bytes, bytes, Fields, bytes]


def read(reader: RequestReader, data: bytes, cuts: Sequence[int] = ()) -> list[Message]:
    """Return the complete requests of data that arrives in pieces."""
    found: list[Message] = []
    head, body = None, b""
    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        reader.receive_data(data[start:end])
        while (event := reader.next_event()) is not NEED_DATA:
            if isinstance(event, WholeRequest):
                assert head is None
                found.append(message(event.head, event.body))
            elif isinstance(event, Head):
                assert head is None
                head, body = event, b""
            elif isinstance(event, bytes):
                assert head is not None
                body += event
            else:
                assert event is END
                assert head is not None
                found.append(message(head, body))
                head = None
    return found


def message(head: Head, body: bytes) -> Message:
    target = head.raw_path + (f"?{head.query}" if head.query else "")
    fields = {name.encode(): value.encode("latin-1") for name, value in head.fields.items()}
    return head.method.encode(), target.encode(), fields, body


def by_name(fields: Iterable[tuple[bytes, bytes]]) -> Fields:
    """Join the lines of each name by commas (RFC 9110 §5.3)."""
    lines: dict[bytes, list[bytes]] = {}
    for name, value in fields:
        lines.setdefault(name, []).append(value)
    return {name: b",".join(values) for name, values in lines.items()}


def read_with_h11(data: bytes) -> list[Message] | None:
    """Return the complete requests; None if h11 refuses the data."""
    connection = h11.Connection(h11.SERVER)
    found: list[Message] = []
    head, body = None, b""
    connection.receive_data(data)
    try:
        while True:
            event = connection.next_event()
            if isinstance(event, h11.Request):
                head, body = event, b""
            elif isinstance(event, h11.Data):
                body += bytes(event.data)
            elif isinstance(event, h11.EndOfMessage) and head is not None:
                found.append((head.method, head.target, by_name(head.headers), body))
                connection.send(h11.Response(status_code=200, headers=[("content-length", "0")]))
                connection.send(h11.EndOfMessage())
                if connection.our_state is not h11.DONE:
                    return found
                connection.start_next_cycle()
            else:
                return found
    except h11.RemoteProtocolError:
        return None


@given(st.lists(REQUESTS, min_size=1, max_size=4), CUTS)
def test_requests_are_read_as_h11_reads_them_however_the_bytes_are_cut(
    requests: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(requests)
    expected = read_with_h11(data)

    found = read(RequestReader(), data, cuts)

    # An offer to upgrade is ignored, and h11 stops at it.
    without = [(*each[:2], fields_without_upgrade(each[2]), each[3]) for each in expected or []]
    assert found[: len(without)] == without
    assert len(found) == len(requests)


def fields_without_upgrade(fields: Fields) -> Fields:
    return {name: value for name, value in fields.items() if name != b"upgrade"}


@pytest.mark.parametrize("body", [b"a", b"a\n", b"a\r\n", b"\n\n", b"\r\n\r\n", b"\r\n\r"])
def test_the_data_of_a_chunk_is_returned_before_more_arrives(body: bytes) -> None:
    reader = RequestReader()
    reader.receive_data(HEAD % b"Transfer-Encoding: chunked\r\n" + b"%x\r\n" % len(body))
    reader.receive_data(body + b"\r\n")

    events = [*iter(reader.next_event, NEED_DATA)]

    assert b"".join(event for event in events if isinstance(event, bytes)) == body


PARTS = st.sampled_from(
    [
        *(b"GET", b"POST", b" ", b"/", b"/a?b", b"http://x/", b" HTTP/1.1", b" HTTP/1.0"),
        *(b"\r\n", b"\n", b"Host: x", b"Host:", b"Content-Length: 3", b"Content-Length: x"),
        *(b"Connection: close", b"Transfer-Encoding: chunked", b"X: y \t", b" folded", b"abc"),
        *(b"3\r\nabc\r\n", b"0\r\n\r\n", b"\x00", b"\xff", b"\t", b":"),
    ]
)


@given(st.lists(PARTS, max_size=12).map(b"".join), CUTS)
def test_what_is_accepted_in_one_piece_and_in_several_is_the_same_and_h11_agrees(
    data: bytes, cuts: list[int]
) -> None:
    found = outcome(data)

    assert outcome(data, cuts) == found
    reference = read_with_h11(data)
    if isinstance(found, list) and reference is not None:
        # h11 ends a connection after `Connection: close`.
        assert found[: len(reference)] == reference


def outcome(data: bytes, cuts: Sequence[int] = ()) -> list[Message] | ErrorCode:
    try:
        return read(RequestReader(), data, cuts)
    except RequestError as error:
        return error.code


def test_a_head_says_how_its_request_ends() -> None:
    head = b"POST http://x/a%%20b?c=d HTTP/1.%b\r\nHost: x\r\n%b\r\n"
    expecting = b"Content-Length: 3\r\nExpect: 100-Continue\r\n"

    first = parse_head(head % (b"1", expecting))
    second = parse_head(head % (b"1", b"Transfer-Encoding: Chunked \r\nConnection: x, Close\r\n"))
    third = parse_head(head % (b"0", b""))
    fourth = parse_head(head % (b"0", expecting))

    assert (first.raw_path, first.path, first.query) == ("/a%20b", "/a b", "c=d")
    assert (first.body_bytes, first.expects_continue, first.keeps_alive) == (3, True, True)
    assert (second.body_bytes, second.expects_continue, second.keeps_alive) == (None, False, False)
    assert (third.body_bytes, third.version, third.keeps_alive) == (0, "1.0", False)
    assert not fourth.expects_continue, "HTTP/1.0 has no 100 (RFC 9110 §10.1.1)"


def test_several_lines_of_a_name_are_one_value() -> None:
    head = parse_head(HEAD % b"X-Request-Id: 1\r\nx-request-ID: 2\r\n")

    assert head.fields == {"host": "x", "x-request-id": "1,2"}


HOST = b"Host: a\r\n"
LENGTHS = [b"x", b"1\r\nContent-Length: 2", b"1\r\nTransfer-Encoding: chunked"]


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        *((line, HOST) for line in (b"GET  / HTTP/1.1", b"GET / HTTP/2.0", b"GET /#a HTTP/1.1")),
        *((line, HOST) for line in (b"CONNECT a:1 HTTP/1.1", b"GET /\xff HTTP/1.1", b"GET /")),
        (b"GET / HTTP/1.1", b""),
        *((b"GET / HTTP/1.1", b"Host: %b\r\n" % host) for host in (b"a b/c", b"a%4:1", b"a:b")),
        (b"GET / HTTP/1.1", b"Host: " + b"a" * 900 + b"!" * 100 + b" !\r\n"),  # in linear time
        (b"GET / HTTP/1.1", HOST + HOST),
        (b"GET / HTTP/1.0", b"Transfer-Encoding: chunked\r\n"),
        *((b"POST / HTTP/1.1", HOST + b"Content-Length: %b\r\n" % each) for each in LENGTHS),
        *(
            (b"POST / HTTP/1.1", HOST + b"Transfer-Encoding: %b\r\n" % coding)
            for coding in (b"chunked, chunked", b"chunked, gzip")
        ),
        *(
            (b"GET / HTTP/1.1", HOST + 2 * (name + b": 1\r\n"))
            for name in (b"Transfer-Encoding", b"Content-Length", b"Content-Type", b"Authorization")
        ),
    ],
)
def test_a_malformed_or_ambiguous_head_is_refused(line: bytes, fields: bytes) -> None:
    with pytest.raises(RequestError) as refused:
        parse_head(line + b"\r\n" + fields + b"\r\n")

    assert refused.value.code is ErrorCode.BAD_REQUEST


@pytest.mark.parametrize("host", [b"", b"[::1]:8000", b"pl%C3%A4nts_1.example.:80", b"x\t \t"])
def test_a_host_may_be_empty_and_have_a_port(host: bytes) -> None:
    head = parse_head(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % host)

    assert head.fields == {"host": host.decode().strip()}


@pytest.mark.parametrize(
    ("around", "value"),
    [
        (b" \t", b"*"),
        *((each, each + b"*" + each) for each in (b"\xa0", b"\xc2\xa0", b"\xe2\x80\x83")),
    ],
)
def test_only_spaces_and_tabs_around_the_value_of_a_field_are_ignored(
    around: bytes, value: bytes
) -> None:
    head = parse_head(HEAD % b"If-Match:%b*%b\r\n" % (around, around))

    assert head.fields["if-match"] == value.decode("latin-1")


def test_a_refused_head_has_its_fields_for_the_request_id() -> None:
    with pytest.raises(HeadRefusedError) as refused:
        parse_head(HEAD % b"X-Request-Id: 7\r\nTransfer-Encoding: gzip, chunked\r\n")

    assert refused.value.code is ErrorCode.NOT_IMPLEMENTED
    assert refused.value.fields["x-request-id"] == "7"


@pytest.mark.parametrize("data", [b"\x16\x03\x01", b" GET", b"GET / HTTP/1.1\nHost: x\n\n"])
def test_bytes_that_are_no_http_are_refused_before_an_empty_line(data: bytes) -> None:
    assert outcome(data) is ErrorCode.BAD_REQUEST
    assert outcome(data, range(len(data))) is ErrorCode.BAD_REQUEST


CHUNKED = HEAD % b"Transfer-Encoding: chunked\r\n"
FIELD = b"X: y\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (b"GET /", b"x"),
        (b"GET / HTTP/1.1\r\nHost: x\r\nX: ", b"y" * 8),
        (b"", b"\r\n"),
        (b"GET / HTTP/1.1\r\n", FIELD),
        (CHUNKED + b"1;", b"x" * 8),
        (CHUNKED + b"0\r\n", FIELD),
    ],
)
def test_an_endless_head_or_framing_is_refused_before_it_fills_the_memory(
    begin: bytes, more: bytes
) -> None:
    reader = RequestReader()

    def receive_without_end() -> None:
        reader.receive_data(begin)
        for _ in range(HEAD_BYTES_MAX):
            while reader.next_event() is not NEED_DATA:
                pass
            reader.receive_data(more)
            assert len(reader.unread) <= HEAD_BYTES_MAX + len(more)

    with pytest.raises(RequestError) as refused:
        receive_without_end()

    assert refused.value.code is ErrorCode.HEAD_TOO_LARGE


@pytest.mark.parametrize("name", sorted(READ_FIELDS - {b"host"}))
def test_a_field_that_is_read_has_at_most_1_kib_with_all_its_lines(name: bytes) -> None:
    first = b"%b: %b\r\n" % (name.upper(), b"x" * (VALUE_BYTES_MAX - 1))

    assert len(parse_head(HEAD % first).fields) == 2
    with pytest.raises(RequestError, match=r"must be no longer than 1024 bytes") as refused:
        parse_head(HEAD % (first + b"%b: xx\r\n" % name))
    assert refused.value.code is ErrorCode.HEAD_TOO_LARGE


def test_another_field_may_fill_the_head_and_a_path_or_a_host_may_not() -> None:
    assert len(parse_head(HEAD % (b"Cookie: %b\r\n" % (b"x" * 30_000))).fields) == 2
    longest = parse_head(b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"%" * 1023))
    assert len(longest.path) == VALUE_BYTES_MAX
    with pytest.raises(RequestError, match=r"Host must be no longer than 1024 bytes"):
        parse_head(b"GET / HTTP/1.1\r\nHost: %b\r\n\r\n" % (b"x" * 1025))
    with pytest.raises(RequestError, match=r"path must be no longer than 1024 bytes"):
        parse_head(b"GET /%b HTTP/1.1\r\nHost: x\r\n\r\n" % (b"%" * 1024))


def test_a_head_has_at_most_100_fields_and_32_kib() -> None:
    names = [b"X%d: y\r\n" % number for number in range(FIELDS_MAX - 1)]
    fields = HEAD % b"".join(names)
    size = HEAD % (b"X: %b\r\n" % (b"y" * (HEAD_BYTES_MAX - len(HEAD) - 3)))

    assert len(parse_head(fields).fields) == FIELDS_MAX
    assert len(size) == HEAD_BYTES_MAX
    assert parse_head(size).path == "/plants"
    for too_large in (fields.replace(names[0], names[0] * 2), size.replace(b"y", b"yy", 1)):
        with pytest.raises(RequestError) as refused:
            parse_head(too_large)
        assert refused.value.code is ErrorCode.HEAD_TOO_LARGE


# The bytes of responses.

JSON = ("Content-Type", "application/json")
ADDED = b"x-content-type-options: nosniff\r\ncache-control: no-store\r\n"


def test_a_head_has_its_fields_those_of_all_responses_and_ours() -> None:
    head = render_head(200, (JSON,), 2, "now")

    assert head == (
        b"HTTP/1.1 200 OK\r\ndate: now\r\ncontent-length: 2\r\ncontent-type: application/json\r\n"
        + ADDED
        + b"\r\n"
    )


def test_a_response_with_its_own_caching_keeps_it() -> None:
    head = render_head(200, (("Cache-Control", "no-cache"),), 2)

    assert head.count(b"cache-control") == 1
    assert b"cache-control: no-cache" in head


def test_an_empty_response_has_no_content_type() -> None:
    head = render_head(200, (JSON,), 0)

    assert b"content-type: " not in head
    assert b"content-length: 0\r\n" in head


@pytest.mark.parametrize("status", [204, 304])
def test_a_status_without_a_body_has_no_length(status: int) -> None:
    head = render_head(status, (), 0)

    assert b"content-length" not in head
    assert b"chunked" not in head
