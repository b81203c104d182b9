"""Slow clients: slow_clients.py KIND PORT TOKEN COUNT SECONDS.

Each client behaves as its kind says, and connects again when the server closes its connection:

    silent   sends nothing
    head     sends a head, one byte per second
    body     sends a whole head, then one byte of the body per second
    reading  requests a large page, and reads one kilobyte of it per second

At the end it prints the number of open connections, as the median over the seconds, and the
number of connections that the server closed.
"""

import asyncio
import contextlib
import json
import socket
import sys
import time
from statistics import median

HEAD = (
    "{} HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nAuthorization: Bearer {}\r\n"
    "Content-Length: {}\r\n\r\n"
)
RECEIVED_BYTES = 1024


class Slow:
    """Clients of one kind."""

    def __init__(self, kind: str, port: int, token: str) -> None:
        self.kind = kind
        self.port = port
        self.post = HEAD.format("POST /plants", token, 100).encode()
        self.get = HEAD.format("GET /plants?limit=1000", token, 0).encode()
        self.open = 0
        self.lost = 0

    async def hold(self, until: float) -> None:
        """Keep one connection open; open another when it is closed."""
        loop = asyncio.get_running_loop()
        while time.monotonic() < until:
            with contextlib.suppress(OSError), socket.socket() as connection:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
                connection.settimeout(0)
                await loop.sock_connect(connection, ("127.0.0.1", self.port))
                self.open += 1
                try:
                    await self.be_slow(loop, connection, until)
                finally:
                    self.open -= 1
                    self.lost += time.monotonic() < until
            await asyncio.sleep(0.1)

    async def be_slow(
        self, loop: asyncio.AbstractEventLoop, connection: socket.socket, until: float
    ) -> None:
        """Return when the server closes the connection."""
        sent = 0
        if self.kind == "body":
            await loop.sock_sendall(connection, self.post)
        if self.kind == "reading":
            await loop.sock_sendall(connection, self.get)
        while time.monotonic() < until:
            await asyncio.sleep(1)
            if self.kind == "head":
                await loop.sock_sendall(connection, self.post[sent : sent + 1])
            elif self.kind == "body":
                await loop.sock_sendall(connection, b" ")
            sent += 1
            try:
                if not connection.recv(RECEIVED_BYTES) or self.kind != "reading":
                    return
            except BlockingIOError:
                pass


async def main(kind: str, port: str, token: str, count: str, seconds: str) -> None:
    slow = Slow(kind, int(port), token)
    until = time.monotonic() + float(seconds)
    clients = [asyncio.create_task(slow.hold(until)) for _ in range(int(count))]
    opened = []
    while time.monotonic() < until:
        await asyncio.sleep(1)
        opened.append(slow.open)
    await asyncio.gather(*clients)
    print(json.dumps({"open": median(opened), "lost": slow.lost}))


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
