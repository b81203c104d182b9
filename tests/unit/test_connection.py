"""A connection on virtual time, with applications and clients that the test scripts."""

import asyncio
from collections.abc import AsyncGenerator

import pytest

from plantstore.errors import ClientGoneError, RequestError
from plantstore.server.connection import PIECE_BYTES
from plantstore.server.interface import ArrivingBody, Request, Response, pieces
from support.served import EVERYTHING, GET, Respond, Served
from support.wire import chunk, head


def streamed(body: bytes | ArrivingBody) -> bytes | ArrivingBody:
    return body if isinstance(body, bytes) else body.as_stream()


class Storing:
    """An operation that stores its bodies as they arrive, as an import does."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []
        self.ends: list[str] = []

    async def __call__(self, request: Request) -> Response:
        self.stored.append(b"")
        try:
            async for piece in pieces(streamed(request.body)):
                self.stored[-1] += piece
        except RequestError as error:
            self.ends.append(error.code.name)
        else:
            self.ends.append("whole")
        return Response(200, body=b"ok")


def test_after_the_first_byte_that_is_not_taken_nothing_of_the_request_is() -> None:
    app = Storing()
    with Served(app, incoming_bytes_max=100_000) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(head(None, b"Content-Length: 100000") + b"1,Abies\n2,Be")
        served.run()

        served.budget.incoming_bytes_max = 0
        client.arrive(b"tula\n3,Carex\n4,")
        served.budget.incoming_bytes_max = 100_000
        client.arrive(b"llis\n")
        served.run()

        assert (app.stored, app.ends) == ([b"1,Abies\n2,Be"], ["OVERLOADED"])
        assert client.sent.startswith(b"HTTP/1.1 200 OK")
        assert client.is_closing()


async def begin_and_wait(_request: Request) -> Response:
    async def body() -> AsyncGenerator[bytes, None]:
        yield b"begun"
        await asyncio.sleep(50)

    return Response(200, body=body())


async def wait(_request: Request) -> Response:
    await asyncio.sleep(5)
    return Response(200, body=b"ok")


CHUNKED_HEAD = head(None, b"Transfer-Encoding: chunked")


@pytest.mark.parametrize(
    ("respond", "begun"),
    [(begin_and_wait, CHUNKED_HEAD + b"ZZ\r\n\r\n"), (begin_and_wait, CHUNKED_HEAD), (wait, GET)],
    ids=["a malformed chunk", "a body", "a request behind another"],
)
def test_what_follows_data_that_is_not_taken_is_neither_read_nor_held(
    respond: Respond, begun: bytes
) -> None:
    with Served(respond, incoming_bytes_max=100_000) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(begun)
        served.run()
        served.budget.incoming_bytes_max = 0
        client.arrive(chunk(b"x" * 50_000))
        served.run()
        for _ in range(50):
            client.arrive(chunk(b"x" * 50_000))
        served.run()

        assert served.budget.incoming_bytes == 0
        assert client.unread_by_server() >= 2_000_000
        served.run(100)
        assert client.is_closing()


class Failing:
    """An operation whose body raises an error: before or behind its first piece, or when closed."""

    def __init__(self, where: str) -> None:
        self._where = where
        self.closed = 0

    async def __call__(self, _request: Request) -> Response:
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


def test_an_error_of_a_body_before_its_first_piece_becomes_the_response() -> None:
    respond = Failing("before")
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET)
        served.run()
        client.arrive(GET)
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 500 ")
        assert client.sent.count(b"HTTP/1.1 500 ") == 2
        assert client.sent.endswith(b"unexpected error")
        assert not client.is_closing()
        assert [type(error) for error in served.application.failures] == [ZeroDivisionError] * 2
        assert [event.status for event in served.told] == [500, 500]
        assert respond.closed == 2


@pytest.mark.parametrize("where", ["behind", "at the end"])
def test_an_error_of_a_body_that_has_begun_aborts_the_connection(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    respond = Failing(where)
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET + GET)
        served.run(5)

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
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET)
        served.run()
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
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET.replace(b"GET", b"HEAD"))
        served.run()

        assert closed
        assert client.sent.startswith(b"HTTP/1.1 500 " if fields else b"HTTP/1.1 200 ")
        assert b"chunked" not in client.sent
        assert client.sent.endswith(b"\r\n\r\n")


def test_an_operation_that_fails_is_answered_and_the_next_request_is_served() -> None:
    async def respond(request: Request) -> Response:
        if request.path == "/fails":
            raise ZeroDivisionError
        return Response(200, body=b"ok")

    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET.replace(b"/", b"/fails", 1))
        served.run()
        client.arrive(GET)
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 500 ")
        assert b"unexpected error" in client.sent
        assert client.sent.count(b"HTTP/1.1 200 OK") == 1
        assert not client.is_closing()


def test_a_body_in_pieces_is_chunked_and_an_empty_piece_does_not_end_it() -> None:
    async def body() -> AsyncGenerator[bytes, None]:
        for piece in (b"", b"a", b"", b"bc"):
            yield piece

    async def respond(_request: Request) -> Response:
        return Response(200, body=body())

    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET)
        served.run()

        head, _, sent = client.sent.partition(b"\r\n\r\n")
        assert b"transfer-encoding: chunked" in head
        assert b"content-length" not in head
        assert sent == chunk(b"a") + chunk(b"bc") + b"0\r\n\r\n"


EXPECTING = head(None, b"Content-Length: 3", b"Expect: 100-continue")
CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"


class Reading:
    """An operation that reads its body after some time, and notes its pieces and the error."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.pieces: list[bytes] = []
        self.error: BaseException | None = None

    async def __call__(self, request: Request) -> Response:
        await asyncio.sleep(self._seconds)
        try:
            async for piece in pieces(request.body):
                self.pieces.append(piece)
        except RequestError as error:
            self.error = error
            raise
        return Response(200, body=b"ok")


def test_what_has_arrived_of_a_body_is_one_piece_and_an_end_alone_is_none() -> None:
    respond = Reading(1)
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(CHUNKED_HEAD)
        client.arrive(chunk(b"ab"))
        client.arrive(chunk(b"c"))
        served.run(2)
        client.arrive(chunk(b"d"))
        served.run()
        client.arrive(b"0\r\n\r\n")
        served.run()

        assert respond.pieces == [b"abc", b"d"]
        assert client.sent.startswith(b"HTTP/1.1 200 OK")
        assert not client.is_closing()


def test_a_client_that_waits_is_told_to_send_the_body_once_it_is_read() -> None:
    respond = Reading(1)
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(EXPECTING)
        served.run(0.9)
        before = client.sent
        served.run()
        served.run(1)
        permitted = client.sent
        client.arrive(b"a")
        served.run()
        client.arrive(b"bc")
        served.run()

        assert (before, permitted) == (b"", CONTINUE)
        assert respond.pieces == [b"a", b"bc"]
        assert client.sent.startswith(CONTINUE + b"HTTP/1.1 200 OK")
        assert client.sent.count(CONTINUE) == 1
        assert not client.is_closing()


def test_a_client_that_does_not_wait_for_permission_gets_none() -> None:
    respond = Reading(1)
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(EXPECTING + b"a")
        served.run(2)
        client.arrive(b"bc")
        served.run()

        assert respond.pieces == [b"a", b"bc"]
        assert client.sent.startswith(b"HTTP/1.1 200 OK")


@pytest.mark.parametrize(
    "sent",
    [[b"Content-Length: 0\r\n\r\n"], [b"Transfer-Encoding: chunked\r\n\r\n", b"0\r\n\r\n"]],
    ids=["without a body", "with an empty one"],
)
def test_a_request_that_expects_a_100_for_no_body_keeps_its_connection(sent: list[bytes]) -> None:
    with Served(Reading(1)) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(head(None, b"Expect: 100-continue").removesuffix(b"\r\n"))
        for piece in sent:
            client.arrive(piece)
            served.run(0.1)
        served.run(2)

        assert client.sent.startswith(b"HTTP/1.1 200 OK")
        assert not client.is_closing()


def test_a_client_that_sends_single_bytes_is_late_also_while_they_are_gathered() -> None:
    with Served(Reading(0)) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(head(None, b"Content-Length: 100000"))
        for _ in range(1_050):
            served.run(0.01)
            client.arrive(b"x")

        assert client.is_closing()


def test_a_connection_closes_if_its_client_was_not_told_to_send_the_body() -> None:
    async def respond(_request: Request) -> Response:
        return Response(200, body=b"ok")

    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(EXPECTING)
        served.run()

        assert CONTINUE not in client.sent
        assert b"connection: close" in client.sent
        assert client.is_closing()


def test_a_body_whose_client_leaves_is_truncated_and_gets_no_response() -> None:
    respond = Reading(0)
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(head(None, b"Content-Length: 3") + b"ab")
        served.run()
        client.leave()
        served.run()

        assert respond.pieces == [b"ab"]
        assert isinstance(respond.error, ClientGoneError)
        assert served.application.failures == []
        assert [event.status for event in served.told] == [499]


def test_a_body_that_the_connection_refuses_ends_for_its_operation() -> None:
    respond = Reading(0)
    with Served(respond) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(CHUNKED_HEAD + chunk(b"ab"))
        served.run()
        client.arrive(b"ZZ\r\n\r\n")
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 503 ")
        assert client.sent.count(b"HTTP/1.1 ") == 1
        assert client.is_closing()
        assert isinstance(respond.error, ClientGoneError)
        assert [event.status for event in served.told] == [503]


HEAD = b"GET / HTTP/1.1\r\nX: "


async def store_or_respond(request: Request) -> Response:
    if request.method == "GET":
        return Response(200, body=b"x" * 50_000)
    request.token = "a"
    return await Storing()(request)


HOLDING = {
    "incomplete heads": (HEAD + b"x" * 20_000, b"HTTP/1.1 503 "),
    "requests sent ahead of unread responses": (GET + b"x" * 20_000, b""),
}


@pytest.mark.parametrize(("held", "response"), HOLDING.values(), ids=HOLDING)
def test_clients_without_a_token_make_room_for_others_the_oldest_first(
    held: bytes, response: bytes
) -> None:
    with Served(store_or_respond, incoming_bytes_max=100_000) as served:
        strangers = [served.connect() for _ in range(20)]
        for stranger in strangers:
            stranger.arrive(held)
            served.run()
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(head(None, b"Content-Length: 60000") + b"x" * 30_000)
        served.run()
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


def test_a_head_that_is_complete_makes_room_for_nobody() -> None:
    app = Storing()
    with Served(app, incoming_bytes_max=100_000) as served:
        begun = served.connect()
        begun.arrive(b"POST / HTTP/1.1\r\nHo")
        begun.arrive(b"st: x\r\nContent-Length: 90000\r\n\r\n" + b"x" * 20_000)
        served.run()
        for _ in range(20):
            served.connect().arrive(HEAD + b"x" * 20_000)
        served.run()

        assert not begun.is_closing()
        assert not app.ends


async def respond_to_one_with_a_token(request: Request) -> Response:
    request.token = "a"
    return Response(200, body=b"x" * 50_000)


def test_who_has_a_token_makes_no_room_though_the_head_arrived_in_pieces() -> None:
    with Served(respond_to_one_with_a_token, incoming_bytes_max=100_000) as served:
        reader = served.connect()
        reader.arrive(GET[:10])
        reader.arrive(GET[10:] + b"x" * 20_000)
        served.run()
        for _ in range(20):
            served.connect().arrive(HEAD + b"x" * 20_000)
        served.run()

        assert not reader.is_closing()


def test_an_error_for_head_has_no_body() -> None:
    with Served(wait) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(CHUNKED_HEAD.replace(b"POST", b"HEAD") + b"ZZ\r\n\r\n")
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 503 ")
        assert client.sent.endswith(b"\r\n\r\n")


def test_a_response_without_a_length_ends_for_http_1_0_when_the_connection_closes() -> None:
    with Served(begin_and_wait) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(b"GET / HTTP/1.0\r\n\r\n")
        served.run(60)

        head, _, body = client.sent.partition(b"\r\n\r\n")
        assert b"chunked" not in head
        assert body == b"begun"
        assert client.is_closing()


def test_a_connection_that_ends_during_a_stop_is_not_dropped_again() -> None:
    with Served(wait) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET)
        served.run()
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


def test_an_error_behind_an_unread_response_counts_too() -> None:
    async def respond_with_token(request: Request) -> Response:
        request.token = "a"
        return Response(200, body=b"ok")

    with Served(respond_with_token) as served:
        client = served.connect()
        client.arrive(GET)
        served.run()
        first = client.get_write_buffer_size()
        served.budget.incoming_bytes_max = 0
        client.arrive(GET)

        assert served.budget.unread_bytes == client.get_write_buffer_size() > first > 0


def test_a_large_response_is_held_in_pieces_and_arrives_whole() -> None:
    body = bytes(range(256)) * 1_000

    async def respond_to(_request: Request) -> Response:
        return Response(200, body=body)

    with Served(respond_to) as served:
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


def test_a_client_that_reads_a_large_response_piece_by_piece_may_be_too_slow() -> None:
    async def respond_to(_request: Request) -> Response:
        return Response(200, body=b"x" * 700_000)

    with Served(respond_to) as served:
        slow, fast = served.connect(), served.connect()
        for client in (slow, fast):
            client.arrive(GET)
        for _ in range(5):
            served.run(9)
            slow.read(20_000)
            fast.read(80_000)

        assert (slow.is_aborted, fast.is_aborted) == (True, False)


def test_who_holds_nothing_of_a_request_makes_no_room() -> None:
    with Served(store_or_respond, incoming_bytes_max=100_000) as served:
        readers = [served.connect() for _ in range(20)]
        for reader in readers:
            reader.arrive(GET)
        served.run()
        for _ in range(2):
            served.connect().arrive(head(None, b"Content-Length: 90000") + b"x" * 60_000)
        served.run()

        assert not any(reader.is_closing() for reader in readers)


def test_a_head_that_makes_room_itself_holds_nothing() -> None:
    with Served(Storing(), incoming_bytes_max=100_000) as served:
        client, other = served.connect(), served.connect()
        client.arrive(HEAD + b"x" * 20_000)
        other.arrive(head(None, b"Content-Length: 90000") + b"x" * 70_000)
        client.arrive(b"x" * 11_000)

        assert client.is_closing()
        assert served.budget.incoming_bytes < 71_000


def test_a_response_that_cannot_be_written_ends_its_connection_and_no_other() -> None:
    def fail(_: object) -> None:
        raise MemoryError

    with Served(store_or_respond) as served:
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


REFUSED_HEAD = head(None, b"Content-Length: 10", b"Connection: close")


def test_a_connection_that_ends_before_its_body_is_closed_when_the_body_has_arrived() -> None:
    """Otherwise the kernel would reset it, and the client would lose the response."""
    with Served(respond_early) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(REFUSED_HEAD + b"12345")
        served.run()
        is_closed_early = client.is_closing()
        client.arrive(b"67890")
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 200 OK")
        assert (client.has_ended, is_closed_early, client.is_closing()) == (True, False, True)
        assert served.budget.incoming_bytes == 0


def test_a_body_behind_the_last_response_has_the_time_of_a_request() -> None:
    with Served(respond_early) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(REFUSED_HEAD)
        served.run(9)
        is_closed_early = client.is_closing()
        served.run(3)

        assert (is_closed_early, client.is_closing()) == (False, True)


async def respond_early(_request: Request) -> Response:
    return Response(200, {}, b"early")


@pytest.mark.parametrize("data", [GET, b"GET / HT"], ids=["of an operation", "of the server"])
def test_a_connection_whose_error_cannot_be_sent_is_aborted(data: bytes) -> None:
    async def fail(_request: Request) -> Response:
        raise ZeroDivisionError

    def fail_again(_error: BaseException, _request: Request) -> Response:
        raise MemoryError

    with Served(fail) as served:
        served.application.fail = fail_again  # type: ignore[method-assign, assignment]
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(data)
        served.run(20)

        assert client.is_aborted
        assert served.budget.incoming_bytes == 0


def test_the_time_for_a_body_begins_with_the_permission_to_send_it() -> None:
    with Served(Reading(9.5)) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(EXPECTING)
        served.run(18)
        client.arrive(b"abc")
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 100 Continue")
        assert b"HTTP/1.1 200 OK" in client.sent


async def wait_for_ever(request: Request) -> Response:
    request.token = "all"
    async for _ in pieces(request.body):
        pass
    return Response(200)


def test_requests_hold_at_most_twice_the_limit_in_whatever_order_they_come() -> None:
    """Each connection holds as much as it may when it comes."""
    limit = 100_000
    with Served(wait_for_ever, incoming_bytes_max=limit) as served:
        for number in range(1, 1001):
            client = served.connect()
            begun = head(None, b"Content-Length: 16000")
            client.arrive(begun + b"x" * max(0, limit // number - len(begun)))
            served.run()

            assert served.budget.incoming_bytes <= 2 * limit
