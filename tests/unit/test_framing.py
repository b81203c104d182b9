"""Where each request ends. These tests use no socket and no parser."""

from itertools import pairwise
from urllib.parse import unquote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plantstore.errors import ErrorCode, RequestError
from plantstore.server.framing import Framing, RequestLine, decode_path

HEAD = b"POST /plants?a=1 HTTP/1.1\r\nHost: x\r\n%b\r\n"
BODIES = st.binary(max_size=40) | st.lists(
    st.sampled_from([b"\r", b"\n", b"\r\n", b"\r\n\r\n", b"x"]), max_size=12
).map(b"".join)


def with_length(body: bytes) -> bytes:
    return HEAD % (b"Content-Length: %d\r\n" % len(body)) + body


def in_chunks(body: bytes, trailer: bytes = b"") -> bytes:
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body)
    return HEAD % b"Transfer-Encoding: chunked\r\n" + chunks + b"0\r\n" + trailer + b"\r\n"


REQUESTS = st.one_of(
    BODIES.map(with_length),
    BODIES.map(in_chunks),
    BODIES.map(lambda body: in_chunks(body, b"X: y\r\n")),
    st.just(b"\r\n\r\n" + HEAD % b""),
)


def fields_of(head: bytes) -> list[tuple[bytes, bytes]]:
    lines = head.strip().split(b"\r\n")[1:]
    return [(name.lower(), value) for name, _, value in (line.partition(b": ") for line in lines)]


class Reader:
    """Replaces the parser: it reports the end of each head and of each request."""

    def __init__(self, requests: list[bytes]) -> None:
        self.framing = Framing()
        self.read = b""
        self.head = b""
        self.ends = [sum(map(len, requests[: n + 1])) for n in range(len(requests))]

    def feed(self, data: bytes) -> None:
        start = 0
        while start < len(data):
            end = self.framing.next_piece(data, start, len(data))
            assert end > start
            assert not any(len(self.read) < e < len(self.read) + end - start for e in self.ends)
            self._take(data[start:end])
            start = end

    def _take(self, piece: bytes) -> None:
        self.read += piece
        if self.framing.is_in_head:
            self.head += piece
            if self.head.strip() and self.head.endswith(b"\r\n\r\n"):
                assert self.framing.begin_body(fields_of(self.head)) == RequestLine(
                    "POST", b"/plants", "/plants", b"a=1", "1.1"
                )
                self.head = b""
        else:
            self.framing.head_bytes = 0
        if len(self.read) in self.ends:
            self.framing.end_request()


@given(st.lists(REQUESTS, min_size=1, max_size=4), st.lists(st.integers(0, 400), max_size=20))
def test_no_piece_contains_bytes_of_two_requests_however_the_data_is_split(
    requests: list[bytes], cuts: list[int]
) -> None:
    data = b"".join(requests)
    reader = Reader(requests)

    for start, end in pairwise([0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]):
        reader.feed(data[start:end])

    assert reader.read == data
    assert reader.framing.is_in_head


def test_the_bytes_of_a_head_are_counted_until_it_is_complete() -> None:
    framing = Framing()
    head = HEAD % b"X: y\r\n"

    framing.next_piece(head, 0, 10)
    framing.next_piece(head, 10, len(head))
    assert framing.head_bytes == len(head)
    framing.begin_body(fields_of(head))

    assert framing.head_bytes == 0


HOST = (b"host", b"a")


@pytest.mark.parametrize(
    ("line", "fields"),
    [
        *((line, [HOST]) for line in (b"GET  / HTTP/1.1", b"GET / HTTP/2.0", b"GET /#a HTTP/1.1")),
        (b"GET / HTTP/1.1", []),
        *((b"GET / HTTP/1.1", [(b"host", host)]) for host in (b"a b/c", b"a%4:1")),
        (b"GET / HTTP/1.1", [HOST, HOST]),
        (b"GET / HTTP/1.0", [(b"transfer-encoding", b"chunked")]),
        *(
            (b"GET / HTTP/1.1", [HOST, (name, b"1"), (name, b"1")])
            for name in (b"transfer-encoding", b"content-length", b"content-type", b"authorization")
        ),
    ],
)
def test_a_malformed_or_ambiguous_head_is_refused(
    line: bytes, fields: list[tuple[bytes, bytes]]
) -> None:
    assert refusal(line, fields) is ErrorCode.BAD_REQUEST


def test_another_transfer_coding_is_not_implemented() -> None:
    fields = [HOST, (b"transfer-encoding", b"gzip, chunked")]

    assert refusal(b"GET / HTTP/1.1", fields) is ErrorCode.NOT_IMPLEMENTED


def refusal(line: bytes, fields: list[tuple[bytes, bytes]]) -> ErrorCode:
    """Return the number of the error with which a head is refused."""
    framing = Framing()
    framing.next_piece(line + b"\r\n\r\n", 0, len(line) + 4)
    with pytest.raises(RequestError) as refused:
        framing.begin_body(fields)
    return refused.value.code


@pytest.mark.parametrize(
    ("target", "raw_path", "path", "query"),
    [
        (b"/a%20b?c=d?e", b"/a%20b", "/a b", b"c=d?e"),
        (b"http://plants/healthz?a", b"/healthz", "/healthz", b"a"),
        (b"http://plants", b"/", "/", b""),
    ],
)
def test_a_target_is_split_into_path_and_query(
    target: bytes, raw_path: bytes, path: str, query: bytes
) -> None:
    framing = Framing()
    head = b"GET %b HTTP/1.1\r\n\r\n" % target
    framing.next_piece(head, 0, len(head))

    line = framing.begin_body([(b"host", b"plants")])

    assert (line.raw_path, line.path, line.query) == (raw_path, path, query)


def test_a_long_host_field_is_validated_in_linear_time() -> None:
    # Backtracking would take longer than anyone can wait.
    host = (b"host", b"a" * 30_000 + b"!" * 100 + b" ")

    assert refusal(b"GET / HTTP/1.1", [host]) is ErrorCode.BAD_REQUEST


@given(
    st.lists(
        st.sampled_from(["/", "a", "+", "\\", "\\x41", "%", "%4", "%zz", "%2F", "%25", "%00"])
        | st.sampled_from(["%C3%A9", "%c3", "%F0%9F%8C%B1", "%5C", "%ED%A0%80"])
    ).map("".join)
)
def test_a_path_is_decoded_as_by_the_standard_library(path: str) -> None:
    assert decode_path(path.encode()) == unquote(path)
