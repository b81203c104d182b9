"""The observers that write the log: a line for each event, or for a burst of equal events."""

import threading
from collections.abc import Callable
from typing import Any, Final, TypeAlias

import structlog
from msgspec.structs import asdict

from plantstore.errors import ErrorCode, StoreUnavailableError, one_line
from plantstore.observe import (
    Answered,
    CommitFailed,
    DatabaseCreated,
    Event,
    ExportCutOff,
    LookupFailed,
    Observer,
    ReadFailed,
    ReadinessChanged,
    RequestFailed,
    RequestRefused,
    ServerChanged,
    SharedWriterStarted,
    Stopping,
    WriterStarted,
    WriterStopped,
    migration_progress,
)
from plantstore.tokens import redact
from plantstore.tracing import known_id

# How long repetitions of a line are only counted, and not written.
QUIET_SECONDS: Final = 1.0

# Maximum length of a path in a line, and of an address that a proxy sent.
SHOWN_CHARACTERS_MAX: Final = 1024

# The refusals that are logged: they indicate load, an attack, or a limit that is too low. The
# others are mistakes of clients, and the response explains them.
_TOLD_REFUSALS: Final = frozenset(
    {
        ErrorCode.TOKEN_INVALID,
        ErrorCode.RATE_EXCEEDED,
        ErrorCode.BAD_REQUEST,
        ErrorCode.REQUEST_TIMEOUT,
        ErrorCode.HEAD_TOO_LARGE,
        ErrorCode.BODY_TOO_LARGE,
        ErrorCode.OVERLOADED,
        ErrorCode.TOO_MANY_CONNECTIONS,
    }
)

_LINES: Final[dict[type[Event], str]] = {
    WriterStarted: "accepting plants",
    SharedWriterStarted: "writing for all workers",
    ReadinessChanged: "ready again",
    Stopping: "stopping",
    WriterStopped: "stopped",
    ServerChanged: "database server",
    DatabaseCreated: "database created",
}

# Calls a function on another thread after a number of seconds.
Later: TypeAlias = Callable[[float, Callable[[], None]], None]


class _Bursts:
    """Writes the first line of a kind, and later a line with the number of repetitions."""

    def __init__(self, write: Callable[..., Any], later: Later) -> None:
        self._write = write
        self._later = later
        self._lock = threading.Lock()
        self._more: dict[tuple[object, ...], int] = {}

    def tell(self, line: str, kind: str = "", **what: object) -> None:
        """Write a line, or count it if one of its kind was written within QUIET_SECONDS."""
        key = (line, kind)
        with self._lock:
            is_first = key not in self._more
            self._more[key] = 0 if is_first else self._more[key] + 1
        if is_first:
            self._write(line, **what)
            self._later(QUIET_SECONDS, lambda: self._tell_more(key, line, what))

    def _tell_more(self, key: tuple[object, ...], line: str, what: dict[str, object]) -> None:
        with self._lock:
            more = self._more.pop(key)
            if more:
                self._more[key] = 0
        if more:
            self._write(line, **what, more=more)
            self._later(QUIET_SECONDS, lambda: self._tell_more(key, line, what))


def _on_a_timer(seconds: float, call: Callable[[], None]) -> None:
    timer = threading.Timer(seconds, call)
    timer.daemon = True
    try:
        timer.start()
    except RuntimeError:  # too many threads, or the interpreter exits
        call()


def log_events(later: Later = _on_a_timer) -> Observer:
    """Return an observer that writes a line for each event, or for a burst of equal events.

    Args:
        later: schedules the line with the number of repetitions.

    """
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind()
    failures = _Bursts(log.error, later)
    refusals = _Bursts(log.warning, later)

    def observe(event: Event) -> None:
        if isinstance(event, RequestRefused):
            if event.code in _TOLD_REFUSALS:
                reason = event.code.name.lower()
                refusals.tell("refused", reason, reason=reason)
        elif isinstance(event, ExportCutOff):
            refusals.tell("export cut off", event.error.code.name, reason=event.error.message)
        elif failure := _failure(event):
            told, error, what = failure
            if isinstance(error, StoreUnavailableError):
                failures.tell(told, error.explanation, **what, reason=error.explanation)
            else:
                failures.tell(told, repr(type(error)), **what, exc_info=error)
        elif isinstance(event, ServerChanged | DatabaseCreated):
            log.info(_LINES[type(event)], **asdict(event))
        elif progress := migration_progress(event):
            log.info(progress, **asdict(event))
        elif line := _LINES.get(type(event)):
            log.info(line)

    return observe


def _failure(event: Event) -> tuple[str, BaseException, dict[str, object]] | None:
    """Return the text of a failure, its error, and the fields of its line."""
    match event:
        case CommitFailed(error=error, changes=changes):
            return "commit failed", error, {"changes": changes}
        case ReadFailed(error=error, reads=reads):
            return "read failed", error, {"reads": reads}
        case LookupFailed(error=error):
            return "token look-up failed", error, {}
        case ReadinessChanged(error=BaseException() as error):
            return "not ready", error, {}
        case RequestFailed(error=error, method=method, path=path, request_id=id_):
            shown = _shown(path)
            return "request failed", error, {"method": method, "path": shown, "request_id": id_}
        case _:
            return None


def _shown(text: str) -> str:
    shown = one_line(redact(text[:SHOWN_CHARACTERS_MAX]))
    return shown if len(text) <= SHOWN_CHARACTERS_MAX else f"{shown}..."


def log_answers() -> Observer:
    """Return an observer that writes the access log: a line for each response."""
    # Bind only once, because binding takes longer than writing a line.
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind()

    def observe(event: Event) -> None:
        if not isinstance(event, Answered):
            return
        request = event.request
        id_ = known_id(request["headers"])
        log.info(
            "request",
            method=request["method"],
            path=_shown(request["raw_path"].decode()),
            status=event.status,
            seconds=round(event.seconds, 6),
            client=_shown(request["client"][0]) if request["client"] else None,
            scheme=request["scheme"],
            **({} if id_ is None else {"request_id": id_}),
        )

    return observe
