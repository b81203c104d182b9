"""What is the latency of accepted creates under ten times the load that the service can serve?

The queue of the service holds QUEUE changes here. At capacity, that many clients send one create
after the other. During overload, ten times as many clients do; a client that is
refused waits for the time in Retry-After. Then the load returns to the capacity. Only requests
with status 200 count for the latency. One process runs all clients: it needs its own core.
"""

import asyncio
import functools
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median, quantiles
from typing import Final, cast

import uvloop

from harness import free_port, make_token, running, script, spread, table, write_result
from small_queue import QUEUE

TIMES = 10
SECONDS = 5
ROUNDS = 4
HEAD: Final = (
    "POST /plants HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {}\r\n"
    "Content-Type: application/json\r\nContent-Length: "
)


@dataclass
class Seen:
    """The measurements of the clients of one load."""

    accepted_ms: list[float] = field(default_factory=list)
    refused: int = 0
    others: int = 0
    seconds: float = 0
    is_over: bool = False
    resident_mib: float = 0

    @property
    def rate(self) -> float:
        """Creates per second."""
        return len(self.accepted_ms) / self.seconds

    @property
    def p99_ms(self) -> float:
        """The 99th percentile of the latency of accepted creates."""
        return quantiles(self.accepted_ms, n=100)[98]


class Client(asyncio.Protocol):
    """Sends one create after the other; after a 503, waits for the time in Retry-After."""

    ids = 0

    def __init__(self, head: bytes, seen: Seen) -> None:
        self.head = head
        self.seen = seen
        self.loop = asyncio.get_running_loop()
        self.closed = self.loop.create_future()
        self.answer = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast("asyncio.Transport", transport)

    def send(self) -> None:
        if self.seen.is_over:
            self.transport.close()
            return
        Client.ids += 1
        body = b'{"id":%d,"name":"Abies balsamea (L.) Mill.","tag":"Abies"}' % Client.ids
        self.sent = time.monotonic()
        self.transport.write(self.head + b"%d\r\n\r\n" % len(body) + body)

    def data_received(self, data: bytes) -> None:
        self.answer += data
        head, end, body = self.answer.partition(b"\r\n\r\n")
        if not end or not body.endswith(b"}"):
            return
        self.answer = b""
        if head[9:12] == b"200":
            self.seen.accepted_ms.append(1000 * (time.monotonic() - self.sent))
            self.send()
        elif head[9:12] == b"503":
            self.seen.refused += 1
            _, _, seconds = head.partition(b"retry-after: ")
            self.loop.call_later(int(seconds.partition(b"\r\n")[0]), self.send)
        else:
            self.seen.others += 1
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self.seen.others += exc is not None
        self.closed.set_result(None)


async def load(port: int, token: str, clients: int) -> Seen:
    """Load the service with this many clients; ignore the first second, in which they start."""
    seen = Seen()
    loop = asyncio.get_running_loop()
    make = functools.partial(Client, HEAD.format(token).encode(), seen)
    opened = [(await loop.create_connection(make, "127.0.0.1", port))[1] for _ in range(clients)]
    for number, client in enumerate(opened):
        loop.call_later(number / clients, client.send)
    await asyncio.sleep(1)
    seen.accepted_ms.clear()
    seen.refused = 0
    began = time.monotonic()
    await asyncio.sleep(SECONDS)
    seen.is_over = True
    seen.seconds = time.monotonic() - began
    await asyncio.gather(*(client.closed for client in opened))
    return seen


def measure(first_id: int) -> dict[str, Seen]:
    Client.ids = first_id
    with tempfile.TemporaryDirectory() as folder:
        database, port = Path(folder) / "plants.db", free_port()
        token = make_token(database)
        with running(script("small_queue.py", database, port), port, token) as server:
            found = {}
            for name, clients in (
                ("at capacity", QUEUE),
                (f"at {TIMES} times the capacity", TIMES * QUEUE),
                ("afterwards", QUEUE),
            ):
                found[name] = uvloop.run(load(port, token, clients))
                found[name].resident_mib = server.resident_mib()
            return found


def main() -> None:
    rounds = [measure(number * 10**8) for number in range(ROUNDS)]
    rows = [
        [
            name,
            f"{median([seen[name].rate for seen in rounds]):,.0f}",
            f"{median([seen[name].p99_ms for seen in rounds]):.0f}",
            f"{median([seen[name].refused / seen[name].seconds for seen in rounds]):,.0f}",
            str(sum(seen[name].others for seen in rounds)),
            f"{max(seen[name].resident_mib for seen in rounds):.0f}",
        ]
        for name in rounds[0]
    ]
    capacity, overload, afterwards = rounds[0]
    p99 = [seen[overload].p99_ms / seen[capacity].p99_ms for seen in rounds]
    after = [seen[afterwards].rate / seen[capacity].rate for seen in rounds]
    header = [f"queue of {QUEUE} changes", "creates/s", "p99 ms", "refused/s", "other responses"]
    write_result(
        "overload",
        "# Overload\n\n"
        + table([*header, "resident MiB"], rows)
        + "\n\n"
        + table(
            ["", "measured", "bar"],
            [
                ["p99 of accepted creates, during overload ÷ at capacity", spread(p99), "≤ 2"],
                ["creates/s, afterwards ÷ at capacity", spread(after), "as before"],
            ],
        ),
    )


if __name__ == "__main__":
    main()
