"""A proxy on the loopback address that cuts a connection before or after a request."""

import contextlib
import select
import socket
import threading
from typing import Literal, Self

BUFFER_BYTES = 65536


class Proxy:
    """Forwards data between clients and a server until a test sets `cut`.

    `cut` applies to the next client that sends data. "before" closes its connection before the
    data reaches the server; "after" closes it after the server has answered, and discards the
    answer.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.cut: Literal["before", "after"] | None = None
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.threads = [threading.Thread(target=self.accept, daemon=True)]

    def __enter__(self) -> Self:
        self.threads[0].start()
        return self

    def __exit__(self, *_: object) -> None:
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive(), "a client is still connected"

    def accept(self) -> None:
        with contextlib.suppress(OSError):  # closed
            while True:
                client, _ = self.listener.accept()
                self.threads.append(
                    threading.Thread(target=self.connect, args=(client,), daemon=True)
                )
                self.threads[-1].start()

    def connect(self, client: socket.socket) -> None:
        with (
            client,
            contextlib.suppress(ConnectionError),
            socket.create_connection(("127.0.0.1", self.server_port)) as server,
        ):
            while True:
                ready, _, _ = select.select([client, server], [], [])
                for speaker, listener in ((client, server), (server, client)):
                    if speaker not in ready:
                        continue
                    said = speaker.recv(BUFFER_BYTES)
                    if speaker is client and said and self.cut:
                        cut, self.cut = self.cut, None
                        if cut == "after":
                            server.sendall(said)
                            server.recv(BUFFER_BYTES)
                        return
                    if not said:
                        return
                    listener.sendall(said)
