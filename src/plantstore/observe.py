"""What happened, as frozen records, for whoever wants to know.

The service tells; who listens (a log, metrics) is decided where it is wired. An
observer must not raise, and must not block: it may be called on the event loop,
or on the writer's or the reader's thread.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

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


@dataclass(frozen=True, slots=True)
class ServerChanged:
    """The primary of the store is another one, or its state has changed.

    Attributes:
        server: host and port; None while there is no primary.
        timeline: of its log; None where the engine has none.
        standbys: for how many synchronous standbys its commits wait.

    """

    server: str | None
    timeline: int | None
    standbys: int


@dataclass(frozen=True, slots=True)
class DatabaseCreated:
    """A store was opened whose file did not exist. The file was created."""

    file: str


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


# A struct: there is one for each request, and a frozen dataclass takes five times as long to make.
class Answered(msgspec.Struct, frozen=True, gc=False):
    """A request has its answer.

    Attributes:
        request: its scope, as ASGI has it.
        route: its path, with the names of the fields in it; empty if nothing is there.
        status: of the answer; 499 if the client went away before it.
        seconds: since the head had arrived.

    """

    request: Mapping[str, Any]
    route: str
    status: int
    seconds: float


Event: TypeAlias = (
    WriterStarted
    | Stopping
    | WriterStopped
    | Committed
    | CommitFailed
    | ReadFailed
    | LookupFailed
    | ReadinessChanged
    | ServerChanged
    | DatabaseCreated
    | RequestRefused
    | RequestFailed
    | Answered
)
Observer: TypeAlias = Callable[[Event], None]


class LastServer:
    """Remembers the last server that the store found."""

    value: ServerChanged | None = None

    def observe(self, event: Event) -> None:
        """Remember the event, if it is one of that kind."""
        if isinstance(event, ServerChanged):
            self.value = event


def ignore(_event: Event) -> None:
    """Observe nothing."""


def tell_all(*observers: Observer, answers: Sequence[Observer]) -> Observer:
    """Return an observer that tells each of these.

    Args:
        observers: are told all events but answers.
        answers: are told of answers, and of nothing else. Since there is one for each request,
            only those that need them are called.

    """

    def observe(event: Event) -> None:
        for tell in answers if type(event) is Answered else observers:
            tell(event)

    return observe
