"""Connections to the application: the errors of each layer, and what is told of each request."""

import asyncio
import gc
import json
import re
import weakref
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from plantstore.api.error_responses import STATUS
from plantstore.changes import InSet
from plantstore.errors import ErrorCode, InternalError, StoreUnavailableError
from plantstore.messages import Application, Request, Response, pieces
from plantstore.observe import RequestFailed, RequestRefused
from plantstore.plants import ID_MAX, NewPlant
from plantstore.server.budget import Budget
from plantstore.server.connection import Connection, Server
from support.virtual_time import EVERYTHING, FakeTransport
from support.world import VALID, World, until

Respond = Callable[[Application, Request], Awaitable[Response]]
Configure = Callable[[Server], Server]


@dataclass
class Wrapped:
    """An application that fails as another one does, and responds with a function of the other."""

    application: Application
    respond: Respond

    async def __call__(self, request: Request) -> Response:
        return await self.respond(self.application, request)

    def fail(self, error: BaseException, request: Request) -> Response:
        return self.application.fail(error, request)


async def usual(application: Application, request: Request) -> Response:
    return await application(request)


def connect(server: Server) -> FakeTransport:
    """Connect a client that reads everything to a server, on the running event loop."""
    loop = asyncio.get_running_loop()
    client = FakeTransport(loop, Connection(server, loop))
    client.read(EVERYTHING)
    return client


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
    respond: Respond = usual


def tight(**bounds: Any) -> Configure:
    return lambda config: replace(config, **bounds)


def failing(error: BaseException) -> Callable[[World], object]:
    return lambda world: world.store.fail(error, "find_token")


def closing(name: str) -> Callable[[World], object]:
    def close(world: World) -> None:
        world.store.apply_changes([InSet(NewPlant(1, "a"), name)])
        world.store.close_set(name)

    return close


async def raising(_application: Application, _request: Request) -> Response:
    raise ZeroDivisionError


async def cancelled(application: Application, request: Request) -> Response:
    """Cancel each request, as a shutdown does after its timeout."""
    task: asyncio.Future[Response] = asyncio.ensure_future(application(request))
    asyncio.get_running_loop().call_soon(task.cancel)
    return await task


async def waiting(_application: Application, request: Request) -> Response:
    """Wait for the body."""
    async for _ in pieces(request.body):
        pass
    return Response(200)


async def unsendable(application: Application, request: Request) -> Response:
    """Respond with a field that has a line end in it."""
    response = await application(request)
    response.fields["Location"] = "/\r\nSet-Cookie: a=b"
    return response


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
        respond=waiting,
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
    Case(ErrorCode.NO_SUCH_SET, "POST", "/undo?set=set-0123456789abc", b""),
    Case(
        ErrorCode.SET_CLOSED,
        *("DELETE", "/plants/1", b"", ("Change-Set: set-0123456789abc",)),
        prepare=closing("set-0123456789abc"),
    ),
    Case(ErrorCode.INTERNAL, prepare=failing(ZeroDivisionError())),
    Case(ErrorCode.INTERNAL, respond=raising),
    Case(ErrorCode.INTERNAL, respond=unsendable),
    Case(ErrorCode.OVERLOADED, settings={"waiting_changes_max": 0}),
    Case(ErrorCode.OVERLOADED, prepare=failing(MemoryError())),
    Case(ErrorCode.OVERLOADED, is_read=False, configure=tight(budget=FULL)),
    Case(ErrorCode.STORE_UNAVAILABLE, prepare=failing(AWAY)),
    Case(ErrorCode.STORE_UNAVAILABLE, respond=cancelled),
    Case(ErrorCode.TOO_MANY_CONNECTIONS, is_read=False, configure=tight(connections_max=0)),
]


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
    server = replace(case.configure(world.server), application=Wrapped(world.app, case.respond))
    client = connect(server)
    client.arrive(rendered(case, token))
    await until(lambda: client.sent and not server.tasks)
    client.leave()
    head, _, body = client.sent.partition(b"\r\n\r\n")
    status_line, *lines = head.decode().split("\r\n")
    headers = dict(line.lower().split(": ", 1) for line in lines)
    assert len(headers) == len(lines), "a field was sent twice"
    assert int(headers["content-length"]) == len(body)
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
    assert 1 <= int(headers.get("retry-after", "1")) <= (3600 if status == 429 else 5)
    assert re.fullmatch(
        TRACE if case.is_read else "[0-9a-f]{32}", headers.get("x-request-id", TRACE)
    )
    assert [event.code for event in world.told(RequestRefused)] == [case.code]


ORIGIN = "https://garden.example"


@pytest.mark.parametrize(
    "case",
    [
        Case(ErrorCode.HEAD_TOO_LARGE, fields=(f"Origin: {ORIGIN}", "Accept: " + "x" * 1_025)),
        Case(ErrorCode.INTERNAL, fields=(f"Origin: {ORIGIN}",), respond=raising),
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


def test_a_response_that_cannot_be_sent_becomes_a_500_with_the_request_id_of_the_log() -> None:
    case = Case(ErrorCode.INTERNAL, "GET", "/healthz", b"", respond=unsendable)
    with World() as world:
        status, headers, body = world.run(exchange(world, case))

    [failed] = world.told(RequestFailed)
    [answered] = world.answers
    assert (status, answered.status, answered.request.route) == (500, 500, "/healthz")
    assert headers["x-request-id"] == failed.request_id
    assert (failed.method, failed.path) == ("GET", "/healthz")
    assert "line end" in str(failed.error)
    assert json.loads(body)["message"] == InternalError().message
    assert [event.code for event in world.told(RequestRefused)] == [ErrorCode.INTERNAL]


def test_each_request_is_reported_with_its_client_its_status_and_its_time() -> None:
    case = Case(ErrorCode.NO_SUCH_PLANT, "GET", "/plants/1", b"", ("X-Forwarded-For: 203.0.113.9",))
    with World(trusted_proxy=("127.0.0.1",)) as world:
        world.run(exchange(world, case))

    [answered] = world.answers
    assert (answered.request.client, answered.status) == (("203.0.113.9", 0), 404)
    assert (answered.request.method, answered.request.raw_path) == ("GET", "/plants/1")
    assert 0 < answered.seconds < 60
    assert world.told(RequestRefused) == [RequestRefused(case.code, ("203.0.113.9", 0))]


# Header fields, and the body that follows them when the server permits it.
EXCHANGES = {
    "without a body": (b"GET /plants HTTP/1.1", b""),
    "with a body": (b"POST /plants HTTP/1.1\r\nContent-Type: application/json", VALID),
    "with a file": (b"POST /plants.ndjson HTTP/1.1", VALID),
    "with an error": (b"POST /plants HTTP/1.1\r\nContent-Type: application/json", VALID[::-1]),
    "with a client that leaves": (b"DELETE /plants/1 HTTP/1.1", VALID[:5]),
}


@pytest.mark.parametrize(("head", "body"), EXCHANGES.values(), ids=EXCHANGES)
def test_no_request_leaves_a_reference_cycle_with_its_connection(head: bytes, body: bytes) -> None:
    """So the garbage collector may run rarely."""

    async def send(world: World) -> None:
        length = b"Content-Length: %d\r\nExpect: 100-continue\r\n" % len(VALID) if body else b""
        token = b"Host: x\r\nAuthorization: Bearer %b\r\n" % world.token.encode()
        client = connect(world.server)
        connection = weakref.ref(client.protocol)
        client.arrive(b"%b\r\n%b%b\r\n" % (head, token, length))
        await until(lambda: client.sent)
        client.arrive(body)
        if len(body) == len(VALID):
            await until(lambda: b"content-length" in client.sent)
        client.leave()
        await until(lambda: world.answers)
        world.answers.clear()  # a request refers to its connection
        world.events.clear()
        await until(lambda: connection() is None)

    gc.disable()
    try:
        with World() as world:
            world.run(send(world))
    finally:
        gc.enable()


def test_there_is_a_case_for_each_error_number() -> None:
    assert {case.code for case in CASES} == set(ErrorCode)
