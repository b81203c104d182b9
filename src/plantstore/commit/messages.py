"""What a worker and the process that writes send each other.

A worker sends a request, waits for the response, and only then sends the next request. Each
message is MessagePack (https://msgpack.org). A `multiprocessing.connection.Connection` sends its
length before it.
"""

from collections.abc import Sequence
from typing import Final, TypeAlias

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
        """The batch."""
        if not self.others:
            return self.creates
        batch: list[Change] = [*self.creates]
        for at, change in self.others:
            batch.insert(at, change)
        return batch


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
        kind: the name of its class.
        message: of the error.
        reason: its details for operators.

    """

    kind: str
    message: str
    reason: str

    @classmethod
    def of(cls, error: Exception) -> "Failed":
        """Return the message for an error."""
        message, reason = getattr(error, "message", str(error)), getattr(error, "reason", "")
        return cls(type(error).__name__, message, reason)

    @property
    def error(self) -> Exception:
        """An error of the same class; a RuntimeError in place of an unexpected one."""
        if kind := _STORE_ERRORS.get(self.kind):
            return kind(self.message, self.reason)
        if other := _OTHER_ERRORS.get(self.kind):
            return other(self.message)
        return RuntimeError(f"{self.kind}: {self.message}")


_STORE_ERRORS: Final = {
    kind.__name__: kind
    for kind in (StoreUnavailableError, StoreUnreachableError, BatchRefusedError)
}
_OTHER_ERRORS: Final = {kind.__name__: kind for kind in (OperationError, MemoryError)}

Request: TypeAlias = Apply | HandOut | Probe
Response: TypeAlias = Ready | Applied | HandedOut | Failed

to_bytes = msgspec.msgpack.Encoder().encode
_requests: Final[msgspec.msgpack.Decoder[Request]] = msgspec.msgpack.Decoder(Request)
_responses: Final[msgspec.msgpack.Decoder[Response]] = msgspec.msgpack.Decoder(Response)
parse_request = _requests.decode
parse_response = _responses.decode

# What parsing raises if the bytes are no message.
MALFORMED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)


def apply_message(changes: Sequence[Change]) -> Apply:
    """Return the request to apply a batch."""
    creates = [change for change in changes if isinstance(change, NewPlant)]
    if len(creates) == len(changes):
        return Apply(creates, [])
    others = [(at, change) for at, change in enumerate(changes) if not isinstance(change, NewPlant)]
    return Apply(creates, others)
