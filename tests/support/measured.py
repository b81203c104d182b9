"""Measures the CPU time and memory of a server for given requests."""

import contextlib
import re
import socket
from bisect import bisect_left
from collections.abc import Callable, Iterator
from pathlib import Path

from support.attacks import MIB, Attack
from support.service import Service

# The operations of an honest client, in this order.
OPERATIONS = ["health", "create", "show", "list", "replace", "delete"]

# The size of the headers of a packet: Ethernet, IP and TCP.
PACKET_BYTES = 66

_LENGTH = re.compile(rb"\r\ncontent-length: (\d+)\r\n", re.IGNORECASE)


def cpu_seconds(service: Service) -> float:
    """Return the CPU time of all threads of the server, with a resolution of nanoseconds."""
    seconds = 0.0
    for task in Path(f"/proc/{service.process.pid}/task").iterdir():
        with contextlib.suppress(FileNotFoundError, ProcessLookupError):
            seconds += int((task / "schedstat").read_text(encoding="ascii").split()[0]) / 1e9
    return seconds


def resident_bytes(service: Service) -> int:
    """Return the resident memory of the server."""
    status = Path(f"/proc/{service.process.pid}/status").read_text(encoding="ascii")
    [kib] = re.findall(r"VmRSS:\s*(\d+) kB", status)
    return int(kib) * 1024


def unread_bytes(service: Service) -> int:
    """Return how many bytes of its clients the server has not read from its sockets."""
    lines = Path("/proc/net/tcp").read_text(encoding="ascii").splitlines()[1:]
    columns = [line.split() for line in lines]
    return sum(
        int(queues.partition(":")[2], 16)
        for _, local, _, state, queues, *_ in columns
        if local.endswith(f":{service.port:04X}") and state != "0A"  # not the listener
    )


def open_logs(service: Service) -> int:
    """Return how many connections to its SQLite database have the log open."""
    count = 0
    for file in Path(f"/proc/{service.process.pid}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):
            count += str(file.readlink()).endswith("-wal")
    return count


class Channel:
    """A connection that is reopened after the server closed it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def exchange(self, data: bytes, piece_bytes: int | None = None) -> tuple[int, int]:
        """Send a request and read its response; see `send` and `receive`."""
        self.send(data, piece_bytes)
        return self.receive()

    def send(self, data: bytes, piece_bytes: int | None = None) -> None:
        """Send a request, in pieces of `piece_bytes` if that is given."""
        if self._socket is None:
            self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        size = piece_bytes or len(data)
        with contextlib.suppress(ConnectionError):
            for start in range(0, len(data), size):
                self._socket.sendall(data[start : start + size])

    def receive(self) -> tuple[int, int]:
        """Read a response; return its status, or 0 if there is none, and its size in bytes."""
        assert self._socket is not None
        answer = bytearray()
        with contextlib.suppress(ConnectionError):
            while piece := self._socket.recv(MIB):
                answer += piece
                if is_whole(answer):
                    break
        if b"\r\nconnection: close\r\n" in answer[:1000].lower() or not answer:
            self.close()
        return int(answer[9:12] or b"0"), len(answer)

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def is_whole(answer: bytes | bytearray) -> bool:
    """Return whether this is a response with its whole body."""
    end = answer.find(b"\r\n\r\n")
    if end < 0:
        return False
    length = _LENGTH.search(answer[: end + 2])
    return len(answer) >= end + 4 + (int(length[1]) if length else 0)


@contextlib.contextmanager
def channel(service: Service) -> Iterator[Channel]:
    """Yield a connection to a server."""
    with contextlib.closing(Channel(service.port)) as opened:
        yield opened


class Measured:
    """The cost of one request of a kind: CPU seconds, and bytes sent and received."""

    def __init__(self, service: Service, attack: Attack, token: bytes) -> None:
        with channel(service) as opened:
            opened.exchange(attack.request(token), attack.piece_bytes)  # warm up
            self.statuses: set[int] = set()
            sent = received = 0
            before = cpu_seconds(service)
            for _ in range(attack.times):
                data = attack.request(token)
                status, size = opened.exchange(data, attack.piece_bytes)
                self.statuses.add(status)
                pieces = 1 if attack.piece_bytes is None else len(data) // attack.piece_bytes
                sent += len(data) + PACKET_BYTES * (pieces - 1)
                received += size
            self.seconds = (cpu_seconds(service) - before) / attack.times
        self.sent = sent // attack.times
        self.bytes = (sent + received) // attack.times


def good_create_seconds(
    service: Service, attack: Attack, token: bytes, connections: int
) -> tuple[int, float]:
    """Return the bytes of a valid create, in and out, and its CPU seconds under this load."""
    with contextlib.ExitStack() as stack:
        channels = [stack.enter_context(channel(service)) for _ in range(connections)]
        sent = received = 0
        before = cpu_seconds(service)
        for _ in range(attack.times):
            for each in channels:
                data = attack.request(token)
                each.send(data)
                sent += len(data)
            for each in channels:
                status, size = each.receive()
                assert status == 200
                received += size
        creates = attack.times * connections
        return (sent + received) // creates, (cpu_seconds(service) - before) / creates


def between(points: list[tuple[int, float]]) -> Callable[[int], float]:
    """Return the linear interpolation between points, which are ordered by size."""
    sizes = [size for size, _ in points]

    def value(size: int) -> float:
        index = min(max(bisect_left(sizes, size), 1), len(points) - 1)
        (left, low), (right, high) = points[index - 1 : index + 1]
        return max(points[0][1], low + (high - low) * (size - left) / (right - left))

    return value
