"""What happened, as frozen records, for whoever wants to know.

The service tells; who listens (a log, metrics) is decided where it is wired. An
observer must not raise, and must not block: it may be called on the event loop,
or on the writer's or the reader's thread.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from plantstore.errors import ErrorCode
from plantstore.store import Outcome


@dataclass(frozen=True, slots=True)
class WriterStarted:
    """From now on, this process accepts changes."""


@dataclass(frozen=True, slots=True)
class Stopping:
    """The process was told to stop, and is not ready from now on."""


@dataclass(frozen=True, slots=True)
class WriterStopped:
    """Everything accepted was answered; no more is accepted."""


@dataclass(frozen=True, slots=True)
class Committed:
    """A batch of changes is on disk, `seconds` after the store was given it."""

    outcomes: Sequence[Outcome]
    seconds: float


@dataclass(frozen=True, slots=True)
class CommitFailed:
    """A transaction failed; its callers were told, and may send again."""

    error: Exception
    changes: int


@dataclass(frozen=True, slots=True)
class ReadFailed:
    """Some reads failed; their callers were told, and may ask again."""

    error: Exception
    reads: int


@dataclass(frozen=True, slots=True)
class LookupFailed:
    """A token could not be looked up; who sent it was told, and may send again."""

    error: Exception


@dataclass(frozen=True, slots=True)
class ReadinessChanged:
    """The store is ready from now on, or is not, for which `error` is the reason."""

    error: BaseException | None


class RequestAnswered(msgspec.Struct, frozen=True, gc=False):
    """A request has its answer, `seconds` after its head was there.

    A struct, since there is one for each request. `route` is the path with the names
    of its fields, or empty where nothing is; `path` is as it was sent, without the
    query; `request_id` is what the client or a proxy calls the request, if they do.
    """

    method: str
    route: str
    path: str
    status: int
    seconds: float
    client: str
    request_id: str | None


@dataclass(frozen=True, slots=True)
class RequestRefused:
    """A request got an Error record, or did not become one; the code says why."""

    code: ErrorCode


@dataclass(frozen=True, slots=True)
class RequestFailed:
    """A request met an error that nobody foresaw, and was answered with a 500."""

    error: BaseException
    method: str
    path: str
    request_id: str


Event: TypeAlias = (
    WriterStarted
    | Stopping
    | WriterStopped
    | Committed
    | CommitFailed
    | ReadFailed
    | LookupFailed
    | ReadinessChanged
    | RequestAnswered
    | RequestRefused
    | RequestFailed
)
Observer: TypeAlias = Callable[[Event], None]


def tell_all(*observers: Observer) -> Observer:
    """Return an observer that tells each of these."""

    def observe(event: Event) -> None:
        for tell in observers:
            tell(event)

    return observe
