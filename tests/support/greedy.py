"""Connections that send the same requests repeatedly, for a limited time.

    python tests/support/greedy.py PORT SECONDS CONNECTIONS < JSON

The JSON on stdin maps the names of attacks to their tokens; the connections are divided
among the attacks. On stdout it prints the count of each status; 0 counts connections that
were closed without a response.
"""

import json
import selectors
import socket
import sys
import time
from collections import Counter

from support.attacks import ATTACKS, MIB
from support.measured import is_whole

BY_NAME = {attack.name: attack for attack in ATTACKS}


class Greedy:
    """A connection that is reopened when it is closed."""

    def __init__(self, port: int, name: str, token: str, events: selectors.BaseSelector) -> None:
        self._port = port
        self._attack = BY_NAME[name]
        self._token = f"Authorization: Bearer {token}".encode() if token else b""
        self._events = events
        self.statuses: Counter[int] = Counter()
        self._open()

    def _open(self) -> None:
        self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=60)
        self._socket.settimeout(0)
        self._begin()
        self._events.register(self._socket, selectors.EVENT_READ | selectors.EVENT_WRITE, self)

    def _begin(self) -> None:
        self._unsent = memoryview(self._attack.request(self._token))
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
            if b"\r\nconnection: close\r\n" in self._answer[:1000].lower():
                self._close(is_answered=True)
            else:
                self._begin()

    def _close(self, *, is_answered: bool = False) -> None:
        self.statuses[0] += not is_answered
        self._events.unregister(self._socket)
        self._socket.close()
        self._open()


def main() -> None:
    port, seconds, connections = int(sys.argv[1]), float(sys.argv[2]), int(sys.argv[3])
    attacks: dict[str, str] = json.load(sys.stdin)
    events = selectors.DefaultSelector()
    names = list(attacks)
    greedy = [
        Greedy(port, names[number % len(names)], attacks[names[number % len(names)]], events)
        for number in range(connections)
    ]
    ends = time.monotonic() + seconds
    while time.monotonic() < ends:
        for key, mask in events.select(0.1):
            key.data.step(mask)
    json.dump(sum((each.statuses for each in greedy), Counter()), sys.stdout)


if __name__ == "__main__":
    main()
