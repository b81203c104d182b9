"""Connections that send the same requests repeatedly, for a limited time."""

import contextlib
import itertools
import select
import socket
import threading
import time
from collections import Counter

from long.measured import Channel
from support.attacks import REQUESTS, Attack


def send_again_and_again(port: int, attack: Attack, token: bytes, statuses: Counter[int]) -> None:
    """Send a request again and again, and count the statuses of the responses."""
    channel = Channel(port)
    while True:
        channel.send(attack.request(token), attack.piece_bytes)
        if attack.piece is not None:
            while not is_refused(channel.socket):
                channel.send(attack.piece)
        status, _ = channel.receive()
        statuses[status] += 1
        if attack.piece is not None:
            channel.close()  # what it sends next would belong to the refused request


def is_refused(connection: socket.socket) -> bool:
    """Return within a second whether there is a response that is a refusal; read none."""
    if not select.select([connection], [], [], 1)[0]:
        return False
    with contextlib.suppress(ConnectionError):
        if connection.recv(12, socket.MSG_PEEK) == b"HTTP/1.1 200":
            time.sleep(1)
            return False
    return True


def send_for(seconds: float, port: int, connections: int, fields: dict[str, str]) -> Counter[int]:
    """Send requests on these connections; return the count of each status.

    0 counts connections that were closed without a response. A response that its client does not
    read is not counted. The threads go on, so this needs a process of its own.

    Args:
        seconds: how long.
        port: that of the service.
        connections: their number. The requests are divided among them.
        fields: the names of attacks and holds, with their Authorization fields.

    """
    counts = [Counter[int]() for _ in range(connections)]
    for name, count in zip(itertools.cycle(fields), counts, strict=False):
        arguments = (port, REQUESTS[name], fields[name].encode(), count)
        threading.Thread(target=send_again_and_again, args=arguments, daemon=True).start()
    time.sleep(seconds)
    return sum(map(Counter, counts), Counter[int]())
