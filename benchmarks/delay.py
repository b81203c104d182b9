"""A proxy on loopback that delays all data, as a network between two machines does.

Its arguments are the port to listen on, the port to connect to, and the round-trip time in
milliseconds.
"""

import queue
import socket
import sys
import threading
import time

BUFFER_BYTES = 1024 * 1024


def hear(
    speaker: socket.socket, said: "queue.SimpleQueue[tuple[float, bytes]]", seconds: float
) -> None:
    while data := speaker.recv(BUFFER_BYTES):
        said.put((time.monotonic() + seconds, data))
    said.put((0, b""))


def say(listener: socket.socket, said: "queue.SimpleQueue[tuple[float, bytes]]") -> None:
    while True:
        due, data = said.get()
        if not data:
            listener.shutdown(socket.SHUT_WR)
            return
        time.sleep(max(0, due - time.monotonic()))
        listener.sendall(data)


def main(port: str, server_port: str, round_trip_ms: str) -> None:
    one_way_seconds = float(round_trip_ms) / 2000
    with socket.create_server(("127.0.0.1", int(port))) as proxy:
        while True:
            client, _ = proxy.accept()
            server = socket.create_connection(("127.0.0.1", int(server_port)))
            for one, other in ((client, server), (server, client)):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                said: queue.SimpleQueue[tuple[float, bytes]] = queue.SimpleQueue()
                for target, args in ((hear, (one, said, one_way_seconds)), (say, (other, said))):
                    threading.Thread(target=target, args=args, daemon=True).start()


if __name__ == "__main__":
    main(*sys.argv[1:])
