"""Opens streams of changes and discards what they send: `followers.py PORT TOKEN NUMBER`.

It prints a line when all streams have begun, and ends when its stdin is closed.
"""

import selectors
import socket
import sys

REQUEST = (
    "GET /changes?after=now HTTP/1.1\r\nHost: localhost\r\n"
    "Accept: text/event-stream\r\nAuthorization: Bearer {token}\r\n\r\n"
)


def main() -> None:
    port, token, number = int(sys.argv[1]), sys.argv[2], int(sys.argv[3])
    selector = selectors.DefaultSelector()
    selector.register(sys.stdin, selectors.EVENT_READ)
    for _ in range(number):
        follower = socket.create_connection(("127.0.0.1", port))
        follower.sendall(REQUEST.format(token=token).encode())
        begin = follower.recv(200)
        if not begin.startswith(b"HTTP/1.1 200 "):
            sys.exit(f"A stream was refused: {begin!r}")
        selector.register(follower, selectors.EVENT_READ)
    print("ready", flush=True)
    buffer = bytearray(1024 * 1024)
    while True:
        for key, _ in selector.select():
            stream = key.fileobj
            if not isinstance(stream, socket.socket):
                return
            if not stream.recv_into(buffer):
                sys.exit("A stream has ended")


if __name__ == "__main__":
    main()
