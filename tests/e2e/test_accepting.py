"""Accepting connections: many per event loop iteration, and after file descriptors ran out."""

import asyncio
import contextlib
import resource
import socket
from pathlib import Path

import uvloop

from plantstore.server.listener import ACCEPTED_MAX, Listener
from support.service import Service

WAITING = 2 * ACCEPTED_MAX


class Turns:
    """Records in which iteration of the event loop each connection got its protocol."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.turn = 0
        self.made: list[int] = []
        self.all_made = asyncio.Event()
        self.count()

    def count(self) -> None:
        self.turn += 1
        if not self.all_made.is_set():
            self.loop.call_soon(self.count)

    def connection(self) -> asyncio.Protocol:
        turns = self

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                turns.made.append(turns.turn)
                if len(turns.made) == WAITING:
                    turns.all_made.set()
                transport.close()

        return Connection()


def test_many_connections_are_accepted_per_event_loop_iteration() -> None:
    async def turns_of(listener: socket.socket) -> list[int]:
        loop = asyncio.get_running_loop()
        turns = Turns(loop)
        accepting = Listener(loop, turns.connection, listener, None)
        await turns.all_made.wait()
        accepting.close()
        await accepting.wait_closed()
        return turns.made

    with contextlib.ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=WAITING))
        for _ in range(WAITING):
            stack.enter_context(socket.create_connection(listener.getsockname()))

        made = uvloop.run(turns_of(listener))

    assert max(made) < 10


def test_without_free_file_descriptors_new_connections_wait_and_open_ones_are_served(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service, contextlib.ExitStack() as stack:
        connected = service.client(None)
        assert connected.send("GET", "/healthz").status == 200
        pid = service.process.pid
        files_max = len(list(Path(f"/proc/{pid}/fd").iterdir())) + 5
        resource.prlimit(pid, resource.RLIMIT_NOFILE, (files_max, files_max))

        for _ in range(20):
            opened = socket.create_connection(("127.0.0.1", service.port), timeout=30)
            stack.enter_context(opened)
        assert connected.send("GET", "/healthz").status == 200
        stack.close()

        late = service.client(None)
        assert late.send("GET", "/healthz").status == 200
        late.close()
        connected.close()
