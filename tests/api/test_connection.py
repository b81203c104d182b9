"""The connections of the server, on real sockets in the process of the test."""

import asyncio
import contextlib
import socket
from collections.abc import Callable
from typing import Any, TypeVar

import uvicorn
import uvloop
from uvicorn.server import ServerState

from plantstore.api.errors import render_error
from plantstore.observe import ignore
from plantstore.server.connection import BoundedConnection
from plantstore.server.interface import CONNECTION_CONFIG, MIB, Bounds, Budget, ConnectionConfig
from plantstore.server.listener import Listener
from plantstore.server.protocol import HttpProtocol

ResultT = TypeVar("ResultT")

PIECES = 5_000
READERS = 5


async def answer_any(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "http.response.start", "status": 200, "headers": []})
    await send({"type": "http.response.body", "body": b""})


def send_in_pieces(address: Any) -> bytes:
    with socket.create_connection(address, timeout=30) as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\nX: ")
        for _ in range(PIECES):
            client.sendall(b"x")
        client.sendall(b"\r\n\r\n")
        return client.recv(15)


def test_a_request_in_one_byte_packets_is_read_in_few_reads() -> None:
    reads: list[int] = []

    class Counted(HttpProtocol):
        def data_received(self, data: bytes) -> None:
            reads.append(len(data))
            super().data_received(data)

    assert serve(Counted, answer_any, send_in_pieces) == b"HTTP/1.1 200 OK"
    assert len(reads) < PIECES / 5


def test_over_the_limit_of_unread_responses_the_slowest_readers_are_disconnected() -> None:
    def read_late(address: Any) -> list[bool]:
        """Send requests on several connections; return which of them are closed too early."""
        with contextlib.ExitStack() as stack:
            clients = []
            for _ in range(READERS):
                client = stack.enter_context(socket.create_connection(address, timeout=30))
                client.sendall(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n" * 20)
                assert client.recv(15, socket.MSG_WAITALL) == b"HTTP/1.1 200 OK"
                clients.append(client)
            return [is_closed_early(client) for client in clients]

    closed = serve(BoundedConnection, answer_much, read_late, unsent_answers_max=2)

    assert closed == [True] * (READERS - 2) + [False] * 2


async def answer_much(_scope: Any, _receive: Any, send: Any) -> None:
    length = (b"content-length", b"%d" % (4 * MIB))
    await send({"type": "http.response.start", "status": 200, "headers": [length]})
    await send({"type": "http.response.body", "body": b"x" * (4 * MIB)})


def is_closed_early(client: socket.socket) -> bool:
    """Read what the kernel holds, and more. Return whether the connection ends in it."""
    left = 20 * MIB
    with contextlib.suppress(ConnectionResetError):
        while left > 0 and (piece := client.recv(MIB)):
            left -= len(piece)
    return left > 0


def serve(
    protocol: Callable[..., asyncio.BaseProtocol],
    app: Any,
    test: Callable[[Any], ResultT],
    *,
    unsent_answers_max: int = 1,
) -> ResultT:
    """Serve an application, and run a test on another thread with the address of the server."""
    bounds = Bounds(
        request_seconds=10,
        idle_seconds=10,
        connections_max=READERS,
        budget=Budget(unsent_answers_max=unsent_answers_max),
    )

    async def serve_until_done(listener: socket.socket) -> ResultT:
        config = uvicorn.Config(app, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        app_state = {CONNECTION_CONFIG: ConnectionConfig(bounds, render_error, ignore)}
        accepting = Listener(
            asyncio.get_running_loop(), lambda: protocol(config, state, app_state), listener, None
        )
        result = await asyncio.to_thread(test, listener.getsockname())
        accepting.close()
        return result

    with socket.create_server(("127.0.0.1", 0)) as listener:
        return uvloop.run(serve_until_done(listener))
