"""What happened, as frozen records, for whoever wants to know.

The service tells; who listens (a log, metrics) is decided where it is wired. An
observer must not raise, and must not block: it may be called on the event loop,
or on the writer's or the reader's thread.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, TypeAlias

from plantstore.errors import ErrorCode
from plantstore.store import Outcome

P = ParamSpec("P")


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
    | ServerChanged
    | RequestRefused
    | RequestFailed
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


# Is told of each answer: the request as ASGI has it (its scope), the path with the names
# of the fields in it, or nothing where nothing is, the status, and the seconds since the
# head was there. No record: there is one for each request, and to make it would cost as
# much as to count it.
AnswerObserver: TypeAlias = Callable[[Mapping[str, Any], str, int, float], None]


def tell_all(*observers: Callable[P, None]) -> Callable[P, None]:
    """Return an observer that tells each of these."""

    def observe(*args: P.args, **kwargs: P.kwargs) -> None:
        for tell in observers:
            tell(*args, **kwargs)

    return observe
