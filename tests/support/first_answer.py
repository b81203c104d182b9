"""A server of one request, for the commands that are clients."""

import socket
import threading
from collections.abc import Iterable


class FirstAnswer:
    """Takes one request, answers it with some bytes, and closes the port for another server."""

    def __init__(self, answer: Iterable[bytes]) -> None:
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self.listener.getsockname()[1]
        self.answer = answer
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self) -> None:
        with self.listener, self.listener.accept()[0] as client:
            client.settimeout(60)
            while b"\r\n\r\n" not in client.recv(65536):
                pass
            for piece in self.answer:
                client.sendall(piece)
            client.shutdown(socket.SHUT_WR)
            while client.recv(65536):
                pass
