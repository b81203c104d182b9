"""A proxy on the loopback address that holds a request back."""

import contextlib
import select
import socket
import threading
from typing import Self

BUFFER_BYTES = 65536


class Proxy:
    """Forwards data between clients and a server.

    `hold_after` is a number of bytes. Once a client has sent so many, no more is read from it.
    """

    def __init__(self, server_port: int) -> None:
        self.server_port = server_port
        self.hold_after: int | None = None
        self.is_holding = threading.Event()
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
            forwarded = 0
            while True:
                speakers = [client, server] if self.readable(forwarded) else [server]
                ready, _, _ = select.select(speakers, [], [])
                for speaker, listener in ((client, server), (server, client)):
                    if speaker not in ready:
                        continue
                    # `hold_after` may have been set since.
                    bytes_max = self.readable(forwarded) if speaker is client else BUFFER_BYTES
                    if not bytes_max:
                        continue
                    said = speaker.recv(bytes_max)
                    if not said:
                        return
                    listener.sendall(said)
                    forwarded += len(said) if speaker is client else 0

    def readable(self, forwarded: int) -> int:
        """Return how many bytes may be read of a client that has sent so many; 0 if it is held."""
        hold_after = self.hold_after
        if hold_after is None:
            return BUFFER_BYTES
        if forwarded >= hold_after:
            self.is_holding.set()
        return max(0, min(BUFFER_BYTES, hold_after - forwarded))
