"""The listener on uvloop, as the service uses it."""

import asyncio
import socket
from typing import cast

import uvloop

from plantstore.server.serving import Listener


def test_a_connection_that_has_its_protocol_stays_open_when_the_listener_closes() -> None:
    async def respond() -> bytes:
        loop = asyncio.get_running_loop()
        made: asyncio.Future[asyncio.Transport] = loop.create_future()

        class Connection(asyncio.Protocol):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                made.set_result(cast("asyncio.Transport", transport))
                accepting.close()

        with socket.create_server(("127.0.0.1", 0)) as listener:
            accepting = Listener(loop, Connection, listener, None)
            reader, writer = await asyncio.open_connection(*listener.getsockname())
            transport = await made
            await accepting.wait_closed()
            transport.write(b"response")
            transport.close()
            response = await reader.read()
            writer.close()
            return response

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        assert runner.run(asyncio.wait_for(respond(), 10)) == b"response"
