"""Connections that send the same requests repeatedly, for a limited time.

    python tests/support/greedy.py PORT SECONDS CONNECTIONS < JSON

The JSON on stdin maps the names of attacks and holds to their Authorization fields; the connections
are divided among them. On stdout it prints the count of each status; 0 counts connections that were
closed without a response. A response that its client does not read is not counted.
"""

import functools
import itertools
import json
import selectors
import socket
import sys
import time
from collections import Counter
from collections.abc import Callable

from support.attacks import MIB, REQUESTS, Hold
from support.measured import is_whole


class Greedy:
    """A connection that sends a request again and again; it is reopened when it is closed."""

    keeps_connection = True

    def __init__(
        self, port: int, request: Callable[[], bytes], events: selectors.BaseSelector
    ) -> None:
        self._port = port
        self._request = request
        self._events = events
        self.statuses: Counter[int] = Counter()
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self._socket.settimeout(0)
        self._begin()
        self._events.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def _begin(self) -> None:
        self._unsent = memoryview(self._request())
        self._answer = bytearray()

    def step(self, events: int) -> None:
        """Write and read as much as is possible without blocking."""
        try:
            if events & selectors.EVENT_WRITE and self._unsent:
                self._unsent = self._unsent[self._socket.send(self._unsent) :]
            if events & selectors.EVENT_READ:
                self._read()
        except BlockingIOError:
            return
        except OSError:
            self._close()

    def _read(self) -> None:
        piece = self._socket.recv(MIB)
        self._answer += piece
        if not piece:
            self._close()
        elif is_whole(self._answer):
            self.statuses[int(self._answer[9:12])] += 1
            is_last = b"\r\nconnection: close\r\n" in self._answer[:1000].lower()
            if self.keeps_connection and not is_last:
                self._begin()
            else:
                self._close(is_answered=True)

    def _close(self, *, is_answered: bool = False) -> None:
        self.statuses[0] += not is_answered
        self._events.unregister(self._socket)
        self._socket.close()
        self._open()


class Holding(Greedy):
    """A connection whose request does not end. It reads only responses that are refusals."""

    keeps_connection = False  # what it sends next would belong to the refused request

    def __init__(
        self, port: int, request: Callable[[], bytes], events: selectors.BaseSelector, piece: bytes
    ) -> None:
        self._piece = piece
        super().__init__(port, request, events)

    def _begin(self) -> None:
        super()._begin()
        self._next_piece_at = time.monotonic() + 1

    def step(self, events: int) -> None:
        """Send the next piece if it is due, and read as much as it does."""
        if not self._unsent and time.monotonic() >= self._next_piece_at:
            self._unsent = memoryview(self._piece)
            self._next_piece_at += 1
        super().step(events)

    def _read(self) -> None:
        if self._answer or self._socket.recv(12, socket.MSG_PEEK) != b"HTTP/1.1 200":
            super()._read()


def main() -> None:
    port, seconds, connections = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    fields: dict[str, str] = json.load(sys.stdin)
    events = selectors.DefaultSelector()
    greedy: list[Greedy] = []
    for name in itertools.islice(itertools.cycle(fields), connections):
        request = functools.partial(REQUESTS[name].request, fields[name].encode())
        if isinstance(hold := REQUESTS[name], Hold):
            greedy.append(Holding(port, request, events, hold.piece))
        else:
            greedy.append(Greedy(port, request, events))
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for key, mask in events.select(0.1):
            key.data.step(mask)
    json.dump(sum((each.statuses for each in greedy), Counter()), sys.stdout)


if __name__ == "__main__":
    main()
