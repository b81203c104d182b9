"""Connections on real sockets, in the process of the test.

Each layer sends error responses with the documented header fields. Clients send in small packets,
or read late.
"""

import asyncio
import contextlib
import json
import re
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, TypeVar

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from plantstore.api.error_responses import STATUS
from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.observe import RequestRefused
from plantstore.plants import ID_MAX, NewPlant
from plantstore.server.connection import Connection
from plantstore.server.interface import (
    CONNECTION_CONFIG,
    EXCHANGE,
    MIB,
    Budget,
    ConnectionConfig,
)
from plantstore.server.listener import Listener
from support.world import VALID, World

ResultT = TypeVar("ResultT")
App = Callable[..., Awaitable[None]]
Configure = Callable[[ConnectionConfig], ConnectionConfig]


@contextlib.asynccontextmanager
async def served(
    app: App, config: ConnectionConfig, protocol: type[Connection] = Connection
) -> AsyncIterator[Any]:
    """Serve an application while the block runs; yield its address."""
    uvicorn_config = uvicorn.Config(app, interface="asgi3", lifespan="off", log_config=None)
    uvicorn_config.load()
    state = ServerState()
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listener = Listener(
            asyncio.get_running_loop(),
            lambda: protocol(uvicorn_config, state, {CONNECTION_CONFIG: config}),
            listening,
            None,
        )
        yield listening.getsockname()
        listener.close()
        await asyncio.gather(*state.tasks, return_exceptions=True)


TRACE = "0af7651916cd43dd8448eb211c80319c"
TRACEPARENT = f"traceparent: 00-{TRACE}-{'b' * 16}-01"
ALWAYS = {"content-type", "content-length", "cache-control", "x-content-type-options"}
# The additional fields of each status, from docs/errors.md.
MORE = {
    401: {"www-authenticate"},
    403: {"www-authenticate"},
    405: {"allow"},
    415: {"accept", "accept-encoding"},
    429: {"retry-after"},
    500: {"x-request-id"},
    501: {"x-request-id"},
    503: {"x-request-id", "retry-after"},
}


@dataclass
class Case:
    """A request whose response is an Error record."""

    code: ErrorCode
    method: str = "POST"
    path: str = "/plants"
    body: bytes = VALID
    fields: tuple[str, ...] = ("Content-Type: application/json",)
    raw: bytes | None = None  # instead of all these
    is_read: bool = True  # then the response can continue the trace of the request
    scopes: tuple[str, ...] = ()
    settings: dict[str, Any] = field(default_factory=dict)
    prepare: Callable[[World], object] = lambda _world: None
    configure: Configure = lambda config: config
    app: Callable[[App], App] = lambda app: app


def tight(**bounds: Any) -> Configure:
    return lambda config: replace(config, **bounds)


def failing(error: BaseException) -> Callable[[World], object]:
    return lambda world: world.store.fail(error, "find_token")


def raising(_app: object) -> App:
    async def app(_scope: object, _receive: object, _send: object) -> None:
        raise ZeroDivisionError

    return app


def cancelled(app: App) -> App:
    """Cancel each request, as a shutdown does after its timeout."""

    async def serve(scope: Any, receive: Any, send: Any) -> None:
        task: asyncio.Future[None] = asyncio.ensure_future(app(scope, receive, send))
        asyncio.get_running_loop().call_soon(task.cancel)
        await task

    return serve


FULL = Budget(incoming_bytes_max=1)
AWAY = StoreUnavailableError("The database cannot be reached")
CASES = [
    Case(ErrorCode.NOT_JSON, body=b"{"),
    Case(ErrorCode.INVALID_PLANT, body=b"{}"),
    Case(ErrorCode.UNSTORABLE_TEXT, body=b'{"id":1,"name":"\\u0000"}'),
    Case(ErrorCode.ID_TAKEN, prepare=lambda world: world.put_in(NewPlant(1, "another"))),
    Case(ErrorCode.NO_SUCH_PLANT, "GET", "/plants/1", b""),
    Case(
        ErrorCode.IDS_EXHAUSTED,
        path="/ids",
        body=b"",
        prepare=lambda world: world.put_in(NewPlant(ID_MAX, "the last one")),
    ),
    Case(ErrorCode.TOKEN_MISSING, fields=("Authorization: Basic x",)),
    Case(ErrorCode.TOKEN_INVALID, fields=("Authorization: Bearer plst_x",)),
    Case(ErrorCode.SCOPE_MISSING, scopes=("plants:read",)),
    Case(
        ErrorCode.RATE_EXCEEDED,
        settings={"rate_per_token": "1/hour"},
        prepare=lambda world: world.parts.authenticator.rate_limit.spend("test"),
    ),
    Case(ErrorCode.BAD_REQUEST, raw=b"GET  / HTTP/1.1\r\n\r\n"),
    Case(ErrorCode.NOT_FOUND, path="/nowhere"),
    Case(ErrorCode.NOT_FOUND, path="//plants"),
    Case(ErrorCode.METHOD_NOT_ALLOWED, "PATCH"),
    Case(ErrorCode.BODY_TOO_LARGE, body=b" " * 16_385),
    Case(ErrorCode.UNSUPPORTED_MEDIA_TYPE, fields=("Content-Type: text/plain",)),
    Case(ErrorCode.INVALID_PARAMETER, "GET", "/plants?x=1", b""),
    Case(ErrorCode.REQUEST_TIMEOUT, raw=b"GET /", configure=tight(request_seconds=0.1)),
    Case(
        ErrorCode.REQUEST_TIMEOUT,
        raw=b"POST /plants HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n",
        configure=tight(request_seconds=0.1),
        app=lambda _app: waiting,
    ),
    Case(ErrorCode.HEAD_TOO_LARGE, fields=("X: " + "x" * 40_000,)),
    Case(ErrorCode.HEAD_TOO_LARGE, fields=("X: x",) * 100),
    Case(ErrorCode.NOT_IMPLEMENTED, fields=("Transfer-Encoding: gzip",), body=b""),
    Case(
        ErrorCode.NOT_ACCEPTABLE,
        *("GET", "/plants.csv", b""),
        prepare=lambda world: world.put_in(NewPlant(1, "a", "")),
    ),
    Case(ErrorCode.PRECONDITION_FAILED, "DELETE", "/plants/1", b"", ("If-Match: *",)),
    Case(
        ErrorCode.FEED_OFF,
        *("GET", "/changes", b""),
        prepare=lambda world: world.store.keep_changes(0),
    ),
    Case(ErrorCode.CHANGES_GONE, "GET", "/changes?after=1", b""),
    Case(ErrorCode.INTERNAL, prepare=failing(ZeroDivisionError())),
    Case(ErrorCode.INTERNAL, app=raising),
    Case(ErrorCode.OVERLOADED, settings={"waiting_changes_max": 0}),
    Case(ErrorCode.OVERLOADED, prepare=failing(MemoryError())),
    Case(ErrorCode.OVERLOADED, is_read=False, configure=tight(budget=FULL)),
    Case(ErrorCode.STORE_UNAVAILABLE, prepare=failing(AWAY)),
    Case(ErrorCode.STORE_UNAVAILABLE, app=cancelled),
    Case(ErrorCode.TOO_MANY_CONNECTIONS, is_read=False, configure=tight(connections_max=0)),
]


async def waiting(_scope: Any, receive: Any, _send: Any) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def rendered(case: Case, token: str) -> bytes:
    if case.raw is not None:
        return case.raw
    bearer = f"Authorization: Bearer {token}"
    own = [] if any(each.startswith("Authorization") for each in case.fields) else [bearer]
    length = [f"Content-Length: {len(case.body)}"] if case.body else []
    lines = [f"{case.method} {case.path} HTTP/1.1", "Host: x", TRACEPARENT]
    return "\r\n".join([*lines, *own, *length, *case.fields, "", ""]).encode() + case.body


async def exchange(world: World, case: Case) -> tuple[int, dict[str, str], bytes]:
    """Send the request of a case to the server and application of a world; return the response."""
    token = world.add_token("test", *case.scopes)
    case.prepare(world)
    config = case.configure(world.parts.connection_config)
    async with served(case.app(world.app), config) as address:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(rendered(case, token))
        status_line = await reader.readline()
        lines: list[str] = []
        while (line := (await reader.readline()).decode().strip()) != "":
            lines.append(line)
        headers = dict(line.lower().split(": ", 1) for line in lines)
        assert len(headers) == len(lines), "a field was sent twice"
        body = await reader.readexactly(int(headers["content-length"]))
        writer.close()
        await writer.wait_closed()
    return int(status_line.split()[1]), headers, body


def of(answers: Iterable[Case]) -> list[str]:
    return [f"{case.code.name.lower()}-{number}" for number, case in enumerate(answers)]


@pytest.mark.parametrize("case", CASES, ids=of(CASES))
def test_every_layer_sends_error_responses_with_the_documented_fields(case: Case) -> None:
    with World(**case.settings) as world:
        status, headers, body = world.run(exchange(world, case))

    assert status == STATUS[case.code]
    assert json.loads(body).keys() == {"error", "message"}
    assert json.loads(body)["error"] == case.code
    assert headers.keys() - {"connection"} == ALWAYS | MORE.get(status, set())
    assert headers["content-type"] == "application/json"
    assert headers["cache-control"] == "no-store"
    assert headers["x-content-type-options"] == "nosniff"
    assert re.fullmatch("[1-9][0-9]*", headers.get("retry-after", "1"))
    assert re.fullmatch(
        TRACE if case.is_read else "[0-9a-f]{32}", headers.get("x-request-id", TRACE)
    )
    assert [event.code for event in world.told(RequestRefused)] == (
        [case.code] if case.app is not raising else []
    )


ORIGIN = "https://garden.example"


@pytest.mark.parametrize(
    "case",
    [
        Case(ErrorCode.HEAD_TOO_LARGE, fields=(f"Origin: {ORIGIN}", "Accept: " + "x" * 1_025)),
        Case(ErrorCode.INTERNAL, fields=(f"Origin: {ORIGIN}",), app=raising),
    ],
    ids=["refused by the server", "an error of the application"],
)
def test_a_page_of_an_allowed_origin_may_read_the_errors_of_the_server(case: Case) -> None:
    with World(allow_origin=(ORIGIN,)) as world:
        status, headers, _ = world.run(exchange(world, case))

    assert status == STATUS[case.code]
    assert headers["access-control-allow-origin"] == ORIGIN
    assert "retry-after" in headers["access-control-expose-headers"]
    assert headers["vary"] == "origin"


def test_there_is_a_case_for_each_error_number() -> None:
    assert {case.code for case in CASES} == set(ErrorCode)


PIECES = 5_000


def serve(
    app: App,
    test: Callable[[Any], ResultT],
    *,
    protocol: type[Connection] = Connection,
    **bounds: Any,
) -> ResultT:
    """Serve an application, and run a test on another thread with the address of the server."""

    async def serve_until_done() -> ResultT:
        async with served(
            app, tight(**bounds)(World().parts.connection_config), protocol
        ) as address:
            return await asyncio.to_thread(test, address)

    return uvloop.run(serve_until_done())


async def answer_any(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


class Counted(Connection):
    """A connection that notes the sizes of what it reads."""

    reads: ClassVar[list[int]] = []

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.reads.append(len(data))


def send_in_pieces(address: Any) -> bytes:
    with socket.create_connection(address, timeout=30) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        for _ in range(PIECES):
            client.sendall(b"x")
        client.sendall(b"\r\n\r\n")
        return client.recv(15)


def test_a_request_in_one_byte_packets_is_read_in_few_reads() -> None:
    Counted.reads.clear()

    assert serve(answer_any, send_in_pieces, protocol=Counted) == b"HTTP/1.1 200 OK"
    assert len(Counted.reads) < PIECES / 5


def test_over_the_limit_of_unread_bytes_slow_clients_without_a_token_are_disconnected() -> None:
    """The kernel keeps nothing for them."""

    def read_late(address: Any) -> tuple[list[bool], int]:
        """Send requests on several connections; return which responses are cut off.

        Also return how many are in the kernel when the service has disconnected all slow clients.
        """
        with contextlib.ExitStack() as stack:
            clients = []
            for target in [b"/token", *[b"/"] * 4]:
                client = stack.enter_context(socket.create_connection(address, timeout=30))
                client.sendall(b"GET %b HTTP/1.1\r\nHost: x\r\n\r\n" % target)
                assert client.recv(15, socket.MSG_WAITALL) == b"HTTP/1.1 200 OK"
                clients.append(client)
            last = is_cut_off(clients.pop(2))
            lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()
            queues = [line.split()[4] for line in lines if f":{address[1]:04X} 0100007F" in line]
            kept = sum(not queue.startswith("00000000:") for queue in queues)
            return [last, *map(is_cut_off, clients)], kept

    # What the kernel takes of a response is at most a fifth of it.
    found = serve(answer_much, read_late, budget=Budget(unread_bytes_max=3 * MUCH))

    assert found == ([True, False, True, False, False], 3)


MUCH = 40 * MIB


async def answer_much(scope: Any, _receive: Any, send: Any) -> None:
    scope[EXCHANGE].has_token = scope["path"] == "/token"
    length = (b"content-length", b"%d" % MUCH)
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": b"x" * MUCH})


def is_cut_off(client: socket.socket) -> bool:
    """Read a response; return whether the connection ends before it."""
    left = MUCH
    with contextlib.suppress(ConnectionResetError):
        while left > 0 and (piece := client.recv(MIB)):
            left -= len(piece)
    return left > 0
