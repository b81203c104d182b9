"""Measures the CPU time and memory of a server for given requests."""

import contextlib
import socket
from bisect import bisect_left
from collections.abc import Callable
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from statistics import median

from support.attacks import Attack
from support.service import Service

# The operations of an honest client, in this order.
OPERATIONS = ["health", "create", "show", "list", "replace", "delete"]

# The size of the headers of a packet: Ethernet, IP and TCP.
PACKET_BYTES = 66


def cpu_seconds(service: Service) -> float:
    """Return the CPU time of all threads of the server, with a resolution of nanoseconds."""
    seconds = 0.0
    for task in Path(f"/proc/{service.process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            seconds += int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    return seconds


class Channel:
    """A connection that is reopened after the server closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None
        self._method = ""  # of the request

    @property
    def socket(self) -> socket.socket:
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return self._socket

    def send(self, data: bytes, piece_bytes: int | None = None) -> None:
        """Send a request, in pieces of `piece_bytes` if that is given."""
        self._method = data.partition(b" ")[0].decode("latin-1")
        size = piece_bytes or len(data) or 1
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(data), size):
                self.socket.sendall(data[start : start + size])

    def receive(self) -> tuple[int, int]:
        """Read a response; return its status, or 0 if there is none, and its size in bytes."""
        response = HTTPResponse(self.socket, method=self._method)
        try:
            response.begin()
            body = response.read()
        except (ConnectionError, HTTPException):
            self.close()
            return 0, 0
        head = sum(
            len(name) + len(value) + len(": \r\n") for name, value in response.headers.items()
        )
        if response.will_close:
            self.close()
        return response.status, len(b"HTTP/1.1 200 OK\r\n\r\n") + head + len(body)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


class Measured:
    """The cost of one request of a kind: CPU seconds, and bytes sent and received.

    With several connections, each of them sends a request before the first response is read. The
    CPU time is the median, because other programs slow single requests down.
    """

    def __init__(
        self, service: Service, attack: Attack, token: bytes, connections: int = 1
    ) -> None:
        self.statuses: set[int] = set()
        with contextlib.ExitStack() as stack:
            channels = [Channel(service.port) for _ in range(connections)]
            for each in channels:
                stack.callback(each.close)
            self._exchange(channels, attack, token)  # warm up
            costs, seconds = [], []
            for _ in range(attack.times):
                before = cpu_seconds(service)
                costs.append(self._exchange(channels, attack, token))
                seconds.append(cpu_seconds(service) - before)
            requests = attack.times * connections
            self.seconds = median(seconds) / connections
        self.sent = sum(sent for sent, _ in costs) // requests
        self.bytes = self.sent + sum(received for _, received in costs) // requests

    def _exchange(self, channels: list[Channel], attack: Attack, token: bytes) -> tuple[int, int]:
        """Send a request on each connection; return the bytes sent and received."""
        sent = received = 0
        for each in channels:
            data = attack.request(token)
            each.send(data, attack.piece_bytes)
            pieces = 1 if attack.piece_bytes is None else len(data) // attack.piece_bytes
            sent += len(data) + PACKET_BYTES * (pieces - 1)
        for each in channels:
            status, size = each.receive()
            self.statuses.add(status)
            received += size
        return sent, received


def between(points: list[tuple[int, float]]) -> Callable[[int], float]:
    """Return the linear interpolation between points, which are ordered by size."""
    sizes = [size for size, _ in points]

    def value(size: int) -> float:
        index = min(max(bisect_left(sizes, size), 1), len(points) - 1)
        (left, low), (right, high) = points[index - 1 : index + 1]
        return max(points[0][1], low + (high - low) * (size - left) / (right - left))

    return value
