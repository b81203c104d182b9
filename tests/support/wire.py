"""A TCP connection on which a test writes raw bytes and reads HTTP responses."""

import contextlib
import json
import socket
import ssl


class Wire(contextlib.AbstractContextManager["Wire"]):
    """A TCP connection for raw bytes, with TLS if there is a context."""

    def __init__(self, port: int, context: ssl.SSLContext | None = None) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        if context is not None:
            self.socket = context.wrap_socket(self.socket, server_hostname="127.0.0.1")
        self.file = self.socket.makefile("rb")

    def __exit__(self, *_: object) -> None:
        self.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def answer(self) -> tuple[int, dict[bytes, bytes], bytes]:
        status = int(self.file.readline().split()[1])
        headers: dict[bytes, bytes] = {}
        while (line := self.file.readline().strip()) != b"":
            name, _, value = line.partition(b": ")
            headers[name.lower()] = value
        return status, headers, self.file.read(int(headers.get(b"content-length", 0)))

    def is_closed(self) -> bool:
        return self.file.read(1) == b""

    def close(self) -> None:
        self.file.close()
        self.socket.close()


def head(
    token: str | None,
    *fields: bytes,
    path: str = "/plants",
    media_type: str = "application/json",
) -> bytes:
    authorization = [] if token is None else [b"Authorization: Bearer " + token.encode()]
    lines = [f"POST {path} HTTP/1.1", "Host: plants", f"Content-Type: {media_type}"]
    return b"\r\n".join([*map(str.encode, lines), *authorization, *fields, b"", b""])


def chunk(data: bytes) -> bytes:
    """Return a chunk of a body."""
    return b"%x\r\n%b\r\n" % (len(data), data)


def in_chunks(body: bytes, size: int) -> bytes:
    """Return a body in chunks of a size."""
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    return b"".join(map(chunk, pieces)) + b"0\r\n\r\n"


def get(path: str, token: str, *fields: bytes) -> bytes:
    """Return a request that reads."""
    lines = [f"GET {path} HTTP/1.1", "Host: plants", f"Authorization: Bearer {token}"]
    return b"\r\n".join([*map(str.encode, lines), *fields, b"", b""])


def percent(text: str) -> str:
    """Percent-encode each character."""
    return "".join(f"%{ord(character):02x}" for character in text)


def escaped(text: str) -> str:
    """Escape each character, as JSON allows."""
    return "".join(f"\\u{ord(character):04x}" for character in text)


def slow_reader(port: int) -> socket.socket:
    """Open a connection whose client holds only a few bytes that it has not read."""
    reader = socket.socket()
    reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    reader.connect(("127.0.0.1", port))
    return reader


def with_length(body: bytes) -> tuple[bytes, bytes]:
    return b"Content-Length: %d" % len(body), body


def assert_refused(wire: Wire, status: int, error: int) -> None:
    told, headers, body = wire.answer()
    assert (told, json.loads(body)["error"]) == (status, error)
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"connection"] == b"close"
    assert wire.is_closed()


def send_until_refused(wire: Wire, piece: bytes, bytes_max: int = 64 * 1024 * 1024) -> int:
    """Send a piece repeatedly until the server closes the connection; return the bytes sent."""
    sent = 0
    with contextlib.suppress(ConnectionError):
        while sent < bytes_max:
            wire.send(piece)
            sent += len(piece)
    return sent
