"""A request in one-byte packets costs far fewer reads than packets."""

import asyncio
import socket
from typing import Any

import pytest
import uvicorn
import uvloop
from uvicorn.server import ServerState

from plantstore.api.errors import render_error
from plantstore.observe import ignore
from plantstore.server.budget import Budget
from plantstore.server.interface import HANDOVER, Bounds, Handover
from plantstore.server.listener import Listener
from plantstore.server.protocol import HttpProtocol

pytestmark = pytest.mark.engines("sqlite")

PIECES = 5_000
BOUNDS = Bounds(
    request_seconds=10,
    idle_seconds=10,
    head_bytes_max=32 * 1024,
    connections_max=1,
    budget=Budget(incoming_bytes_max=2**20, unsent_bytes_max=2**20, unsent_answers_max=1),
)


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

    async def serve(listener: socket.socket) -> bytes:
        config = uvicorn.Config(answer_any, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        app_state = {HANDOVER: Handover(BOUNDS, render_error, ignore)}
        accepting = Listener(
            asyncio.get_running_loop(), lambda: Counted(config, state, app_state), listener, None
        )
        answer = await asyncio.to_thread(send_in_pieces, listener.getsockname())
        accepting.close()
        return answer

    with socket.create_server(("127.0.0.1", 0)) as listener:
        assert uvloop.run(serve(listener)) == b"HTTP/1.1 200 OK"

    assert len(reads) < PIECES / 5
