"""A connection on virtual time, with applications and clients that the test scripts."""

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

import pytest

from plantstore.errors import ClientGoneError, ErrorCode, RequestError
from plantstore.messages import Request, Response, pieces
from plantstore.server.connection import PIECE_BYTES
from plantstore.server.http11 import render_head
from support.virtual_time import EVERYTHING, GET, FakeTransport, Served, responding
from support.wire import chunk, head


async def begin_and_wait(_request: Request) -> Response:
    async def body() -> AsyncGenerator[bytes, None]:
        yield b"begun"
        await asyncio.sleep(50)

    return Response(200, body=body())


async def wait(_request: Request) -> Response:
    await asyncio.sleep(5)
    return Response(200, body=b"ok")


CHUNKED_HEAD = head(None, b"Transfer-Encoding: chunked")


class Failing:
    """An operation that raises an error, or whose body does: around its first piece, or closed."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.closed = 0

    async def __call__(self, _request: Request) -> Response:
        if self._where == "at once":
            raise ZeroDivisionError
        return Response(200, body=self._body())

    async def _body(self) -> AsyncGenerator[bytes, None]:
        try:
            if self._where == "before":
                raise ZeroDivisionError
            yield b"begun"
            if self._where == "behind":
                raise ZeroDivisionError
            await asyncio.sleep(1)
            yield b"more"
        finally:
            self.closed += 1
            if self._where == "at the end":
                raise ZeroDivisionError


@pytest.mark.parametrize(("where", "closed"), [("at once", 0), ("before", 2)])
def test_an_error_before_the_first_piece_of_a_response_becomes_the_response(
    where: str, closed: int
) -> None:
    respond = Failing(where)
    with Served(respond) as served:
        client = served.send(GET)
        client.arrive(GET)
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 500 ")
        assert client.sent.count(b"HTTP/1.1 500 ") == 2
        assert client.sent.endswith(b"unexpected error")
        assert not client.is_closing()
        assert [type(error) for error in served.application.failures] == [ZeroDivisionError] * 2
        assert [event.status for event in served.told] == [500, 500]
        assert respond.closed == closed


@pytest.mark.parametrize("where", ["behind", "at the end"])
def test_an_error_of_a_body_that_has_begun_aborts_the_connection(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    respond = Failing(where)
    with Served(respond) as served:
        client = served.send(GET + GET, seconds=5)

        assert client.sent.count(b"HTTP/1.1 ") == 1
        assert client.sent.startswith(b"HTTP/1.1 200 ")
        assert not client.sent.endswith(b"0\r\n\r\n")
        assert client.is_aborted
        assert respond.closed == 1
        assert served.application.failures == []
        assert [event.status for event in served.told] == [200]
    assert [record.exc_info and record.exc_info[0] for record in caplog.records] == [
        ZeroDivisionError
    ]


@pytest.mark.parametrize("where", ["nowhere", "at the end"])
def test_a_body_is_closed_when_its_client_has_left(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    respond = Failing(where)
    with Served(respond) as served:
        client = served.send(GET)
        client.leave()
        served.run(5)

        assert respond.closed == 1
        assert not served.server.tasks
    assert len(caplog.records) == (where != "nowhere")


@pytest.mark.parametrize("fields", [{}, {"X": "y\r\nz: 1"}], ids=["HEAD", "a malformed field"])
def test_a_body_that_is_not_sent_is_closed_at_once(fields: dict[str, str]) -> None:
    begun: list[AsyncGenerator[bytes, None]] = []
    closed = []

    async def body() -> AsyncGenerator[bytes, None]:
        try:
            yield b""
            yield b"x"
        finally:
            closed.append(True)

    async def respond(_request: Request) -> Response:
        begun.append(body())
        await anext(begun[0])
        return Response(200, fields, begun[0])

    with Served(respond) as served:
        client = served.send(GET.replace(b"GET", b"HEAD"))

        assert closed
        assert client.sent.startswith(b"HTTP/1.1 500 " if fields else b"HTTP/1.1 200 ")
        assert b"chunked" not in client.sent
        assert client.sent.endswith(b"\r\n\r\n")


def test_a_body_in_pieces_is_chunked_and_an_empty_piece_does_not_end_it() -> None:
    async def body() -> AsyncGenerator[bytes, None]:
        for piece in (b"", b"a", b"", b"bc"):
            yield piece

    async def respond(_request: Request) -> Response:
        return Response(200, body=body())

    with Served(respond) as served:
        client = served.send(GET)

        head, _, sent = client.sent.partition(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert b"content-length" not in head
        assert sent == chunk(b"a") + chunk(b"bc") + b"0\r\n\r\n"


EXPECTING = head(None, b"Content-Length: 3", b"Expect: 100-continue")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Reading:
    """An operation that reads its body after some time, and notes its pieces and the error."""

    def __init__(self, seconds: float, *, is_import: bool = False) -> None:
        self._seconds = seconds
        self._is_import = is_import
        self.pieces: list[bytes] = []
        self.error: RequestError | None = None

    async def __call__(self, request: Request) -> Response:
        body: Any = request.body
        await asyncio.sleep(self._seconds)
        try:
            async for piece in pieces(body.as_stream() if self._is_import else body):
                self.pieces.append(piece)
        except RequestError as error:
            self.error = error
            raise
        return Response(200, body=b"ok")


def test_after_the_first_byte_that_is_not_taken_nothing_of_the_request_is() -> None:
    app = Reading(0, is_import=True)
    with Served(app, incoming_bytes_max=100_000) as served:
        client = served.send(head(None, b"Content-Length: 100000") + b"1,Abies\n2,Be")

        served.budget.incoming_bytes_max = 0
        client.arrive(b"tula\n3,Carex\n4,")
        served.budget.incoming_bytes_max = 100_000
        client.arrive(b"llis\n")
        served.run()

        assert b"".join(app.pieces) == b"1,Abies\n2,Be"
        assert app.error is not None
        assert app.error.code is ErrorCode.OVERLOADED
        assert client.sent.startswith(b"HTTP/1.1 503 ")
        assert client.is_closing()


def test_what_has_arrived_of_a_body_is_one_piece_and_an_end_alone_is_none() -> None:
    respond = Reading(1)
    with Served(respond) as served:
        client = served.send(CHUNKED_HEAD, chunk(b"ab"), chunk(b"c"), seconds=2)
        client.arrive(chunk(b"d"))
        served.run()
        client.arrive(b"0\r\n\r\n")
        served.run()

        assert respond.pieces == [b"abc", b"d"]
        assert client.sent.startswith(b"HTTP/1.1 200 OK")
        assert not client.is_closing()


def test_no_more_is_read_while_much_of_a_body_waits_for_its_operation() -> None:
    with Served(Reading(5, is_import=True)) as served:
        client = served.send(head(None, b"Content-Length: 200000"))
        read = []
        for _ in range(2):
            client.arrive(b"x" * 50_000)
            read.append(client.is_read)
        served.run(6)

        assert [*read, client.is_read] == [True, False, True]


EXPECTING_HEAD = b"POST / HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\n"
# What a client sends, the time after each piece, and what it is sent.
PERMITTED = {
    "a body that waits": ([(EXPECTING, 9.6), (b"a", 0.1), (b"bc", 0.1)], b"abc", CONTINUE),
    "a body that waits long": ([(EXPECTING, 18), (b"abc", 0.1)], b"abc", CONTINUE),
    "a body that does not wait": ([(EXPECTING + b"a", 9.6), (b"bc", 0.1)], b"abc", b""),
    "no body": ([(EXPECTING_HEAD + b"Content-Length: 0\r\n\r\n", 9.6)], b"", b""),
    "an empty body": (
        [(EXPECTING_HEAD + b"Transfer-Encoding: chunked\r\n\r\n", 0.1), (b"0\r\n\r\n", 9.6)],
        *(b"", b""),
    ),
}


@pytest.mark.parametrize(("sent", "read", "permission"), PERMITTED.values(), ids=PERMITTED)
def test_a_client_that_waits_is_told_to_send_its_body_once_it_is_read(
    sent: list[tuple[bytes, float]], read: bytes, permission: bytes
) -> None:
    """The time for the body begins with the permission."""
    respond = Reading(9.5)
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        for piece, seconds in sent:
            client.arrive(piece)
            served.run(seconds)

        assert b"".join(respond.pieces) == read
        assert client.sent.startswith(permission + b"HTTP/1.1 200 OK")
        assert not client.is_closing()


def test_a_request_that_arrives_in_single_bytes_is_read_in_few_reads() -> None:
    with Served(responding(b"ok")) as served:
        client = served.send(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        for _ in range(1_000):
            client.arrive(b"x")
            served.run(0.001)
        client.arrive(b"\r\n\r\n")
        served.run(1)

        assert client.sent.startswith(b"HTTP/1.1 200 OK")
        assert client.reads < 100


def test_a_connection_closes_if_its_client_was_not_told_to_send_the_body() -> None:
    with Served(responding(b"ok")) as served:
        client = served.send(EXPECTING)

        assert CONTINUE not in client.sent
        assert b"connection: close" in client.sent
        assert client.is_closing()


@pytest.mark.parametrize(
    ("end", "response", "status"),
    [
        (lambda client: client.leave(), b"", 499),
        (lambda client: client.arrive(b"ZZ\r\n\r\n"), b"HTTP/1.1 503 ", 503),
    ],
    ids=["its client leaves", "it is malformed"],
)
def test_a_body_that_is_truncated_ends_for_its_operation(
    end: Callable[[FakeTransport], None], response: bytes, status: int
) -> None:
    respond = Reading(0)
    with Served(respond) as served:
        client = served.send(CHUNKED_HEAD + chunk(b"ab"))
        end(client)
        served.run()

        assert respond.pieces == [b"ab"]
        assert client.sent[:13] == response
        assert client.sent.count(b"HTTP/1.1 ") == bool(response)
        assert client.is_closing()
        assert isinstance(respond.error, ClientGoneError)
        assert len(served.application.failures) == bool(response)
        assert [event.status for event in served.told] == [status]


HEAD = b"GET / HTTP/1.1\r\nX: "


async def read_or_respond(request: Request) -> Response:
    """Respond to a GET, and read another request. Only the path `/` is asked without a token."""
    request.token = "" if request.path == "/" else "a"
    if request.method == "GET":
        return Response(200, body=b"x" * 50_000)
    async for _ in pieces(request.body):
        pass
    return Response(200, body=b"ok")


GET_WITH_TOKEN = GET.replace(b"/", b"/a", 1)


HOLDING = {
    "incomplete heads": (HEAD + b"x" * 20_000, b"HTTP/1.1 503 "),
    "requests sent ahead of unread responses": (GET + b"x" * 20_000, b""),
}


@pytest.mark.parametrize(("held", "response"), HOLDING.values(), ids=HOLDING)
def test_clients_without_a_token_make_room_for_others_the_oldest_first(
    held: bytes, response: bytes
) -> None:
    with Served(read_or_respond, incoming_bytes_max=100_000) as served:
        strangers = [served.connect() for _ in range(20)]
        for stranger in strangers:
            stranger.arrive(held)
            served.run()
        client = served.send(head(None, b"Content-Length: 60000") + b"x" * 30_000)
        client.arrive(b"x" * 30_000)
        served.run()
        for stranger in strangers:
            stranger.read(EVERYTHING)

        assert client.sent.startswith(b"HTTP/1.1 200 ")
        are_closed = [stranger.is_closing() for stranger in strangers]
        assert are_closed == sorted(are_closed, reverse=True)
        assert are_closed[0]
        assert not are_closed[-1]
        assert strangers[0].sent[:13] == response


LARGE_HEAD = head(None, b"Content-Length: 90000")
STAYING = {
    "with a token, a request that came in pieces": (
        GET_WITH_TOKEN[:9],
        GET_WITH_TOKEN[9:] + b"x" * 20_000,
    ),
    "nothing but an unread response": (GET,),
}


@pytest.mark.parametrize("held", STAYING.values(), ids=STAYING)
def test_other_clients_make_no_room(held: tuple[bytes, ...]) -> None:
    with Served(read_or_respond, incoming_bytes_max=100_000) as served:
        staying = served.connect()
        for piece in held:
            staying.arrive(piece)
        served.run()
        for _ in range(3):
            served.connect().arrive(LARGE_HEAD + b"x" * 60_000)
        served.run()

        assert served.budget.incoming_bytes >= 60_000
        assert not staying.is_closing()


def test_an_error_for_head_has_no_body() -> None:
    with Served(wait) as served:
        client = served.send(CHUNKED_HEAD.replace(b"POST", b"HEAD") + b"ZZ\r\n\r\n")

        assert client.sent.startswith(b"HTTP/1.1 503 ")
        assert client.sent.endswith(b"\r\n\r\n")


def test_a_response_without_a_length_ends_for_http_1_0_when_the_connection_closes() -> None:
    with Served(begin_and_wait) as served:
        client = served.send(b"GET / HTTP/1.0\r\n\r\n", seconds=60)

        head, _, body = client.sent.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert body == b"begun"
        assert client.is_closing()


def test_a_connection_that_ends_during_a_stop_is_not_dropped_again() -> None:
    with Served(wait) as served:
        client = served.send(GET)
        for connection in [*served.server.connections]:
            connection.shutdown()
        served.run(60)

        assert client.sent.startswith(b"HTTP/1.1 200 ")
        assert client.is_lost


UNREAD = {
    "a small response": (16_000, False, 0),
    "a large one, of which a piece is written": (700_000, False, 700_000),
    "a large one that others hold too": (700_000, True, 0),
    "the first part of a stream": (700_000, None, 700_000 + len(b"aae60\r\n\r\n")),
}


@pytest.mark.parametrize(("size", "is_shared", "held"), UNREAD.values(), ids=UNREAD)
def test_what_is_held_for_clients_that_read_nothing_counts_from_the_first_byte(
    size: int,
    is_shared: bool | None,  # noqa: FBT001
    held: int,
) -> None:
    async def parts() -> AsyncGenerator[bytes, None]:
        yield b"x" * size
        await asyncio.sleep(1)

    async def respond_to(_request: Request) -> Response:
        if is_shared is None:
            return Response(200, body=parts())
        return Response(200, body=b"x" * size, is_shared=is_shared)

    with Served(respond_to, unread_bytes_max=2_000_000) as served:
        first = served.connect()
        first.arrive(GET)
        served.run()
        held += first.get_write_buffer_size()
        count = 2_000_000 // held
        clients = [served.connect() for _ in range(count + 4)]
        for client in clients:
            client.arrive(GET)
            served.run()

        are_closed = [client.is_closing() for client in [first, *clients]]
        assert are_closed == [True] * 5 + [False] * count
        clients[-1].read(EVERYTHING)
        clients[0].leave()
        served.run(2)
        assert served.budget.unread_bytes == (count - 1) * held


def test_over_the_limit_of_unread_bytes_a_client_with_a_token_is_disconnected_last() -> None:
    with Served(read_or_respond, unread_bytes_max=150_000) as served:
        clients = [served.connect() for _ in range(5)]
        for client, number in zip(clients, range(5), strict=True):
            client.arrive(GET if number in {1, 2} else GET_WITH_TOKEN)
            served.run()
            if number == 3:
                without_token = [each.is_discarded for each in clients]

        assert without_token == [False, True, True, False, False]
        assert [each.is_discarded for each in clients] == [True, True, True, False, False]


def test_a_large_response_is_held_in_pieces_and_arrives_whole() -> None:
    body = bytes(range(256)) * 1_000

    with Served(responding(body)) as served:
        client = served.connect()
        client.arrive(GET + GET)
        sizes = []
        served.run()
        while size := client.get_write_buffer_size():
            sizes.append(size)
            client.read(5_000)
            served.run()

        head, _, sent = client.sent.partition(b"\r\n\r\n")
        assert sent == body + head + b"\r\n\r\n" + body
        assert max(sizes) <= PIECE_BYTES + len(head) + 4
        assert served.budget.unread_bytes == 0


def test_a_head_that_makes_room_itself_holds_nothing() -> None:
    with Served(read_or_respond, incoming_bytes_max=100_000) as served:
        client, other = served.connect(), served.connect()
        client.arrive(HEAD + b"x" * 20_000)
        other.arrive(LARGE_HEAD + b"x" * 70_000)
        client.arrive(b"x" * 11_000)

        assert client.is_closing()
        assert served.budget.incoming_bytes < 71_000


@pytest.mark.parametrize(
    ("size", "said"),
    [(2, "A response could not be written"), (50_000, "A response was cut off")],
)
def test_a_response_that_cannot_be_written_is_logged_and_ends_its_connection_and_no_other(
    caplog: pytest.LogCaptureFixture, size: int, said: str
) -> None:
    def fail(_: object) -> None:
        raise MemoryError

    with Served(responding(b"x" * size)) as served:
        clients = [served.connect() for _ in range(3)]
        clients[1].write = fail  # type: ignore[method-assign, assignment]
        for client in clients:
            client.read(EVERYTHING)
            client.arrive(GET)
        served.run()

        assert [client.sent[:15] for client in clients] == [
            b"HTTP/1.1 200 OK",
            b"",
            b"HTTP/1.1 200 OK",
        ]
        assert [client.is_lost for client in clients] == [False, True, False]
    assert [record.message for record in caplog.records] == [said]


REFUSED_HEAD = head(None, b"Content-Length: 10", b"Connection: close")


def test_a_connection_that_ends_before_its_body_is_closed_when_the_body_has_arrived() -> None:
    """Otherwise the kernel would reset it, and the client would lose the response."""
    with Served(responding(b"early")) as served:
        client = served.send(REFUSED_HEAD + b"12345")
        is_closed_early = client.is_closing()
        client.arrive(b"67890")
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 200 OK")
        assert (client.has_ended, is_closed_early, client.is_closing()) == (True, False, True)
        assert served.budget.incoming_bytes == 0


@pytest.mark.parametrize("data", [GET, b"GET / HT"], ids=["of an operation", "of the server"])
def test_a_connection_whose_error_cannot_be_sent_is_aborted(data: bytes) -> None:
    async def fail(_request: Request) -> Response:
        raise ZeroDivisionError

    def fail_again(_error: BaseException, _request: Request) -> Response:
        raise MemoryError

    with Served(fail) as served:
        served.application.fail = fail_again  # type: ignore[method-assign, assignment]
        client = served.send(data, seconds=20)

        assert client.is_aborted
        assert served.budget.incoming_bytes == 0


def test_requests_hold_at_most_twice_the_limit_in_whatever_order_they_come() -> None:
    """Each connection holds as much as it may when it comes."""
    limit = 100_000
    with Served(read_or_respond, incoming_bytes_max=limit) as served:
        for number in range(1, 1001):
            client = served.connect()
            begun = head(None, b"Content-Length: 16000")
            client.arrive(begun + b"x" * max(0, limit // number - len(begun)))
            served.run()

            assert served.budget.incoming_bytes <= 2 * limit


def test_heads_with_links_are_not_cached() -> None:
    """They may be as long as the head of a request, and differ."""

    async def respond(_request: Request) -> Response:
        return Response(200, {"Link": '</plants>; rel="first"'})

    render_head.cache_clear()
    with Served(respond) as served:
        client = served.connect()
        client.arrive(GET)
        client.read(EVERYTHING)
        served.run()

    assert b"</plants>" in client.sent
    assert render_head.cache_info().currsize == 0
