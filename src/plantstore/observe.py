"""The events of the service, as frozen structs, and their observers.

`plantstore.cli.wiring` decides which observers (the log, the metrics) get the events. An
observer must not raise and must not block: it may be called on the event loop, or on any thread.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

import msgspec

from plantstore.changes import Result
from plantstore.errors import ErrorCode, RequestError
from plantstore.messages import Request


class Event(msgspec.Struct, frozen=True):
    """What the service tells its observers."""


class Started(Event, frozen=True):
    """From now on, this process accepts changes."""


class Stopping(Event, frozen=True):
    """The process got a signal to stop, and is not ready from now on."""


class Stopped(Event, frozen=True):
    """All accepted changes are answered, and no more are accepted."""


class WorkerFailed(Event, frozen=True):
    """A worker process ended or was killed. Another one is started.

    Attributes:
        worker: its process id; None if it could not be started.
        reason: why it failed, in words.

    """

    worker: int | None
    reason: str


class Committed(Event, frozen=True):
    """A batch of changes is on disk. `outcomes` has the result of each.

    `seconds` is the time that the store took.
    """

    outcomes: Sequence[Result]
    seconds: float


class CommitFailed(Event, frozen=True):
    """A transaction failed. Its callers got an error, and may retry."""

    error: Exception
    changes: int


class ReadFailed(Event, frozen=True):
    """Some reads failed. Their callers got an error, and may retry."""

    error: Exception
    reads: int


class ExportCutOff(Event, frozen=True):
    """An export was ended before its last plant, for a reason that does not lie in the store."""

    error: RequestError


class ReadinessChanged(Event, frozen=True):
    """The store is ready from now on if `error` is None, or else not ready because of `error`."""

    error: BaseException | None


class ServerChanged(Event, frozen=True):
    """The store has another primary, or its primary has another number of standbys.

    Attributes:
        server: host and port; None if no primary can be reached.
        standbys: number of synchronous standbys that its commits wait for.

    """

    server: str | None
    standbys: int


class DatabaseCreated(Event, frozen=True):
    """The database was missing or empty when it was opened, so a new store was created in it."""

    database: str


class DamagedPlantsExported(Event, frozen=True):
    """An export has plants whose checksum is wrong. `plants` is their number."""

    plants: int


class HardLinksFound(Event, frozen=True):
    """The database file has several names."""

    file: str


class MigrationStarted(Event, frozen=True):
    """The schema of an older store is being migrated from one version to another.

    The SQL of the migrations reports no progress.
    """

    version: int
    target: int


class PlantsIndexed(Event, frozen=True):
    """A migration fills the index of words. It has done `plants` of the `total` plants."""

    plants: int
    total: int


class Migrated(Event, frozen=True):
    """The schema has its newest version, and the index of words has all plants."""

    version: int
    seconds: float


class RequestRefused(Event, frozen=True):
    """A request, or data that is not a valid request, got an Error record with this code.

    `client` has the address and the port of the client, if the application got the request.
    """

    code: ErrorCode
    client: tuple[str, int] | None = None


class RequestFailed(Event, frozen=True):
    """A request caused an unexpected error, and was answered with a 500."""

    error: BaseException
    method: str
    path: str
    request_id: str


class Imported(Event, frozen=True):
    """An import ended. `counts` has what became of its rows, also if it failed half-way."""

    media_type: str
    counts: Mapping[str, int]


class Responded(Event, frozen=True, gc=False):
    """A request is answered.

    Attributes:
        request: the request.
        status: of the response; 499 if the client disconnected before it.
        seconds: the time since the head arrived.

    """

    request: Request
    status: int
    seconds: float


Observer: TypeAlias = Callable[[Event], None]


def migration_progress(event: Event) -> str | None:
    """Return the progress of a migration in words; None if the event is another one."""
    match event:
        case MigrationStarted(version=version, target=target):
            return f"migrating schema {version} to {target}"
        case PlantsIndexed(plants=plants, total=total):
            return f"indexed {plants:,} of {total:,} plants"
        case Migrated(version=version, seconds=seconds):
            return f"migrated to schema {version} in {seconds:.1f} s"
        case _:
            return None


def ignore(_event: Event) -> None:
    """Observe nothing."""


def fan_out(*observers: Observer, frequent: Mapping[type, Sequence[Observer]]) -> Observer:
    """Return an observer that calls several others.

    Args:
        observers: get all events but those of `frequent`.
        frequent: the observers of events that are frequent: only those that need them.

    """

    def observe(event: Event) -> None:
        for tell in frequent.get(type(event), observers):
            tell(event)

    return observe
