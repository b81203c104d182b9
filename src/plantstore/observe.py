"""What happened, as frozen records, for whoever wants to know.

The service tells; who listens (a log, later a metric) is decided where it is
wired. An observer must not raise, and must not block: it may be called on the
event loop, or on the writer's or the reader's thread.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias


@dataclass(frozen=True, slots=True)
class WriterStarted:
    """From now on, this process accepts changes."""


@dataclass(frozen=True, slots=True)
class WriterStopped:
    """Everything accepted was answered; no more is accepted."""


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
class RequestFailed:
    """A request met an error that nobody foresaw, and was answered with a 500."""

    error: BaseException
    method: str
    path: str


Event: TypeAlias = (
    WriterStarted
    | WriterStopped
    | CommitFailed
    | ReadFailed
    | LookupFailed
    | ReadinessChanged
    | RequestFailed
)
Observer: TypeAlias = Callable[[Event], None]
