"""A connection on virtual time, with applications and clients that the test scripts."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from plantstore.errors import ErrorCode, RequestError
from plantstore.observe import ignore
from plantstore.server.connection import Connection
from plantstore.server.interface import (
    CONNECTION_CONFIG,
    EXCHANGE,
    Budget,
    ConnectionConfig,
    ErrorResponse,
)
from support.virtual_time import FakeTransport, VirtualLoop
from support.wire import chunk, head

App = Callable[[Any, Any, Any], Awaitable[None]]

OK = [(b"content-length", b"2")]
EVERYTHING = 10**9


def render_error(error: RequestError, _fields: object) -> ErrorResponse:
    return ErrorResponse(
        500 if error.code is ErrorCode.INTERNAL else 503, {}, error.message.encode()
    )


class Served(contextlib.AbstractContextManager["Served"]):
    """A server on virtual time: connections to one application, which share a budget."""

    def __init__(self, app: App, **bounds: int) -> None:
        self.loop = VirtualLoop()
        self.budget = Budget(**bounds)
        self.state = ServerState()
        self._clients: list[FakeTransport] = []
        self._errors: list[Any] = []
        self.loop.set_exception_handler(lambda _loop, context: self._errors.append(context))
        self._config = uvicorn.Config(
            app,
            interface="asgi3",
            lifespan="off",
            log_config=None,
            timeout_graceful_shutdown=10,
        )
        self._config.load()
        self._of_connection = ConnectionConfig(
            request_seconds=10,
            idle_seconds=75,
            connections_max=1000,
            budget=self.budget,
            render_error=render_error,
            observe=ignore,
        )

    def connect(self) -> FakeTransport:
        state = {CONNECTION_CONFIG: self._of_connection}
        connection = Connection(self._config, self.state, state, self.loop)
        client = FakeTransport(self.loop, connection)
        self._clients.append(client)
        return client

    def run(self, seconds: float = 0.001) -> None:
        """Let the server work for so long."""
        self.loop.run_until_complete(asyncio.sleep(seconds))

    def __exit__(self, *_: object) -> None:
        for client in self._clients:
            client.leave()
        self.run(200)
        self.loop.close()
        assert not self._errors


async def respond(send: Any, body: bytes = b"ok") -> None:
    length = b"%d" % len(body)
    fields = [(b"content-length", length)]
    await send({"type": "http.response.start", "status": 200, "headers": fields})
    await send({"type": "http.response.body", "body": body})


class Storing:
    """An application that stores its bodies as they arrive, as an import does."""

    def __init__(self) -> None:
        self.stored: list[bytes] = []
        self.ends: list[str] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        scope[EXCHANGE].stream_body()
        self.stored.append(b"")
        try:
            while True:
                event = await receive()
                self.stored[-1] += event["body"]
                if not event["more_body"]:
                    break
        except RequestError as error:
            self.ends.append(error.code.name)
        else:
            self.ends.append("whole")
        await respond(send)


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


async def begin_and_wait(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b"begun", "more_body": True})
    await asyncio.sleep(50)
    await send({"type": "http.response.body", "body": b""})


async def wait(_scope: Any, _receive: Any, send: Any) -> None:
    await asyncio.sleep(5)
    await respond(send)


CHUNKED_HEAD = head(None, b"Transfer-Encoding: chunked")
GET = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"


@pytest.mark.parametrize(
    ("app", "begun"),
    [(begin_and_wait, CHUNKED_HEAD + b"ZZ\r\n\r\n"), (begin_and_wait, CHUNKED_HEAD), (wait, GET)],
    ids=["a malformed chunk", "a body", "a request behind another"],
)
def test_what_follows_data_that_is_not_taken_is_neither_read_nor_held(
    app: App, begun: bytes
) -> None:
    with Served(app, incoming_bytes_max=100_000) as served:
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


async def respond_and_raise(_scope: Any, _receive: Any, send: Any) -> None:
    await respond(send)
    raise ZeroDivisionError


async def respond_and_raise_later(_scope: Any, _receive: Any, send: Any) -> None:
    await respond(send)
    await asyncio.sleep(1)
    raise ConnectionResetError


@pytest.mark.parametrize("app", [respond_and_raise, respond_and_raise_later])
def test_an_error_behind_a_complete_response_affects_neither_it_nor_the_next(app: App) -> None:
    with Served(app) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET)
        served.run(0.5)
        client.arrive(GET)
        served.run(5)

        assert client.sent.count(b"HTTP/1.1 200 OK") == 2
        assert not client.is_closing()


async def respond_with_another_length(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": OK})
    await send({"type": "http.response.body", "body": b"more"})


def test_a_response_of_another_length_than_it_says_is_500() -> None:
    with Served(respond_with_another_length) as served:
        client = served.connect()
        client.read(EVERYTHING)
        client.arrive(GET)
        served.run()

        assert client.sent.startswith(b"HTTP/1.1 500 ")
        assert b"unexpected error" in client.sent
        assert not client.is_aborted


HEAD = b"GET / HTTP/1.1\r\nX: "


async def store_or_respond(scope: Any, receive: Any, send: Any) -> None:
    if scope["method"] == "GET":
        await respond(send, b"x" * 50_000)
        return
    scope[EXCHANGE].has_token = True
    await Storing()(scope, receive, send)


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


async def respond_to_one_with_a_token(scope: Any, _receive: Any, send: Any) -> None:
    scope[EXCHANGE].has_token = True
    await respond(send, b"x" * 50_000)


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
        for connection in [*served.state.connections]:
            connection.shutdown()
        served.run(60)

        assert client.sent.startswith(b"HTTP/1.1 200 ")
        assert client.is_lost


def test_all_bytes_of_an_unread_response_are_counted_also_behind_other_responses() -> None:
    async def respond_to(scope: Any, _receive: Any, send: Any) -> None:
        # The head of the large response does not fit behind the small one.
        await respond(send, b"x" * (700_000 if scope["path"] == "/large" else 16_234))

    with Served(respond_to, unread_bytes_max=2_000_000) as served:
        clients = [served.connect() for _ in range(10)]
        for client in clients:
            client.arrive(GET + GET.replace(b"/", b"/large", 1))
            served.run()

        unread = sum(client.get_write_buffer_size() for client in clients)
        assert unread < 2_000_000
        assert [client.is_closing() for client in clients] == [True] * 8 + [False] * 2


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
