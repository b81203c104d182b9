"""TLS between a socket and a connection.

The TLS of event loops has buffers that it does not report: what it encrypted and the kernel has not
taken, and what it received and has not decrypted. With 150 clients that read nothing, they took
500 MiB. Here, all that is encrypted is given to the socket at once, and all that has arrived to the
connection, so these two see and limit what is held.
"""

import asyncio
import contextlib
import ssl
from typing import Final, cast

# OpenSSL's buffers keep the size of the most that was ever in them. A record of TLS has as much.
_PIECE_BYTES: Final = 16 * 1024

# Records without data that a client may send: those of the handshake, and new keys. OpenSSL takes
# any number, and each costs as much CPU time as a small request.
_OTHERS_MAX: Final = 100

# The type, the version and the length of a record (RFC 8446 §5.1).
_HEADER_BYTES: Final = 5


class Tls(asyncio.Protocol):
    """The protocol of a socket, and the transport of a connection, from the handshake on.

    Attributes:
        handshake: is done when the handshake is; cancelled if the connection ends before.

    """

    def __init__(
        self, protocol: asyncio.Protocol, context: ssl.SSLContext, loop: asyncio.AbstractEventLoop
    ) -> None:
        self._protocol, self._context = protocol, context
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._socket: asyncio.Transport
        self._others = 0  # records of which no data was read
        self._header = b""  # the beginning of that of the next record
        self._skipped = 0  # bytes until it
        self.handshake: asyncio.Future[None] = loop.create_future()

    # The protocol of the socket.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Wait for the client to begin the handshake."""
        self._socket = transport
        # The connection calls these, too.
        self.is_closing, self.abort = transport.is_closing, transport.abort
        self.pause_reading, self.resume_reading = transport.pause_reading, transport.resume_reading
        self.get_write_buffer_size = transport.get_write_buffer_size
        self.set_write_buffer_limits = transport.set_write_buffer_limits

    def data_received(self, data: bytes) -> None:
        """Give the connection all that has arrived at once.

        A client may send thousands of records of one byte.
        """
        try:
            self._decrypt(data)
        except ssl.SSLZeroReturnError:  # the client ends the connection
            self.close()
        except ssl.SSLError:
            self._flush()  # it may be an alert
            self._socket.abort()

    def pause_writing(self) -> None:
        """Tell the connection."""
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        """Tell the connection."""
        self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        """Tell the connection, if there is one."""
        self.handshake.cancel()
        if not self.handshake.cancelled():
            self._protocol.connection_lost(exc)

    def _decrypt(self, data: bytes) -> None:
        pieces: list[bytes] = []
        try:
            for start in range(0, len(data), _PIECE_BYTES):
                piece = data[start : start + _PIECE_BYTES]
                self._count_records(piece)
                self._incoming.write(piece)
                with contextlib.suppress(ssl.SSLWantReadError):  # the rest of a record is missing
                    self._read_records(pieces)
                if self._outgoing.pending:  # such as a new key
                    self._flush()
                if self._others > _OTHERS_MAX:
                    raise ssl.SSLError("too many records without data")
        finally:
            if pieces and not self._socket.is_closing():
                self._protocol.data_received(b"".join(pieces))

    def _count_records(self, data: bytes) -> None:
        data = self._header + data
        at = self._skipped
        while (end := at + _HEADER_BYTES) <= len(data):
            self._others += 1
            at = end + int.from_bytes(data[end - 2 : end])
        self._header, self._skipped = data[at:], max(at - len(data), 0)

    def _read_records(self, pieces: list[bytes]) -> None:
        if not self.handshake.done():
            self._shake_hands()
        while self._incoming.pending or self._tls.pending():
            piece = self._tls.read(_PIECE_BYTES)
            if not piece:
                raise ssl.SSLZeroReturnError
            pieces.append(piece)
            self._others -= 1  # a read returns the data of one record

    def _shake_hands(self) -> None:
        try:
            self._tls.do_handshake()
        finally:
            self._flush()
        self.handshake.set_result(None)
        self._protocol.connection_made(cast("asyncio.Transport", self))

    def _flush(self) -> None:
        if not self._socket.is_closing():
            self._socket.write(self._outgoing.read())

    # The transport of the connection.

    def write(self, data: bytes) -> None:
        """Encrypt data, and write it."""
        if data:
            self._tls.write(data)
            self._flush()

    def write_eof(self) -> None:
        """Tell the client that nothing more will be sent (RFC 8446 §6.1)."""
        with contextlib.suppress(ssl.SSLError):  # the client has not done the same yet
            self._tls.unwrap()
        self._flush()

    def close(self) -> None:
        """Close the connection when the client has read everything."""
        self.write_eof()
        self._socket.close()

    def get_extra_info(self, name: str) -> object:
        """Return what is known of the connection."""
        return self._context if name == "sslcontext" else self._socket.get_extra_info(name)
