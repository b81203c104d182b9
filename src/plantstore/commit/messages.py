"""What a worker and the process that writes send each other, and how it becomes bytes.

A worker sends a request, waits for the response, and only then sends the next request. Each
message is MessagePack (https://msgpack.org), after its length as four bytes.
"""

import struct
from collections.abc import Sequence
from typing import Final, TypeAlias, TypeVar

import msgspec

from plantstore.changes import Change, Conditional, Result, UnconditionalChange
from plantstore.errors import (
    BatchRefusedError,
    OperationError,
    StoreUnavailableError,
    StoreUnreachableError,
)
from plantstore.plants import NewPlant

# Maximum length of a message. Unanswered requests have at most 64 MiB together, and a batch of an
# import has less. A character of them has at most four bytes here.
MESSAGE_BYTES_MAX: Final = 256 * 1024 * 1024

_LENGTH: Final = struct.Struct("!I")
LENGTH_BYTES: Final = _LENGTH.size

MessageT = TypeVar("MessageT")


class ProtocolError(Exception):
    """The bytes are no message."""


class Apply(msgspec.Struct, array_like=True, tag=1, gc=False):
    """Apply a batch of changes. The response is Applied.

    Attributes:
        creates: the creates of the batch, in order.
        others: the other changes, with their positions in the batch, in order.

    """

    creates: list[NewPlant]
    others: list[tuple[int, UnconditionalChange | Conditional]]

    @property
    def changes(self) -> Sequence[Change]:
        """The batch.

        Raises:
            ProtocolError: a position is missing, or is there twice.

        """
        if not self.others:
            return self.creates
        others = dict(self.others)
        creates = iter(self.creates)
        total = len(self.creates) + len(self.others)
        batch = [others.get(at) or next(creates, None) for at in range(total)]
        found = [change for change in batch if change is not None]
        if len(found) < total:
            raise ProtocolError("A change is missing")
        return found


class HandOut(msgspec.Struct, array_like=True, tag=2, gc=False):
    """Hand out ids. The response is HandedOut."""

    count: int


class Probe(msgspec.Struct, array_like=True, tag=3, gc=False):
    """Check that plants can be written. The response is Ready."""


class Ready(msgspec.Struct, array_like=True, tag=1, gc=False):
    """Plants can be written. It is also the first message on each connection."""


class Applied(msgspec.Struct, array_like=True, tag=2, gc=False):
    """The batch is on disk: the result of each change."""

    results: list[Result]


class HandedOut(msgspec.Struct, array_like=True, tag=3, gc=False):
    """The first and the last of the ids."""

    first: int
    last: int


class Failed(msgspec.Struct, array_like=True, tag=4, gc=False):
    """The store raised an error.

    Attributes:
        kind: the name of its class; empty for an unexpected error.
        message: of the error.
        reason: its details for operators.

    """

    kind: str
    message: str
    reason: str

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """Return the message for an error."""
        if isinstance(error, StoreUnavailableError):
            return cls(type(error).__name__, error.message, error.reason)
        kind = type(error).__name__ if isinstance(error, OperationError | MemoryError) else ""
        return cls(kind, str(error), type(error).__name__)

    @property
    def error(self) -> Exception:
        """An error of the same class."""
        if kind := _STORE_ERRORS.get(self.kind):
            return kind(self.message, self.reason)
        if self.kind == OperationError.__name__:
            return OperationError(self.message)
        if self.kind == MemoryError.__name__:
            return MemoryError(self.message)
        return RuntimeError(f"{self.reason}: {self.message}")


_STORE_ERRORS: Final = {
    kind.__name__: kind
    for kind in (StoreUnavailableError, StoreUnreachableError, BatchRefusedError)
}

Request: TypeAlias = Apply | HandOut | Probe
Response: TypeAlias = Ready | Applied | HandedOut | Failed

_encode = msgspec.msgpack.Encoder().encode
_requests: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_responses: Final[msgspec.msgpack.Decoder[Response]] = msgspec.msgpack.Decoder(Response)


def apply_message(changes: Sequence[Change]) -> Apply:
    """Return the request to apply a batch."""
    creates = [change for change in changes if isinstance(change, NewPlant)]
    if len(creates) == len(changes):
        return Apply(creates, [])
    others = [(at, change) for at, change in enumerate(changes) if not isinstance(change, NewPlant)]
    return Apply(creates, others)


def to_bytes(message: Request | Response) -> bytes:
    """Return a message, with its length before it."""
    body = _encode(message)
    return _LENGTH.pack(len(body)) + body


def length_of(head: bytes | bytearray) -> int:
    """Return the length of the message that follows.

    Raises:
        ProtocolError: it is too long.

    """
    [length] = _LENGTH.unpack(head)
    if length > MESSAGE_BYTES_MAX:
        raise ProtocolError(f"A message has {length} bytes")
    return int(length)


def parse_request(body: bytes) -> Request:
    """Parse a request.

    Raises:
        ProtocolError: the bytes are no request.

    """
    return _parse(_requests, body)


def parse_response(body: bytes) -> Response:
    """Parse a response.

    Raises:
        ProtocolError: the bytes are no response.

    """
    return _parse(_responses, body)


def _parse(decoder: msgspec.msgpack.Decoder[MessageT], body: bytes) -> MessageT:
    try:
        return decoder.decode(body)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise ProtocolError(str(error)) from error
