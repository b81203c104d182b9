"""The log on stderr: text on a terminal, JSON lines otherwise."""

import logging
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict
from typing import Any, Final, TextIO, TypeAlias, cast

import structlog

from plantstore.errors import ErrorCode, StoreUnavailableError, one_line
from plantstore.observe import (
    Answered,
    CommitFailed,
    DatabaseCreated,
    Event,
    LookupFailed,
    Observer,
    ReadFailed,
    ReadinessChanged,
    RequestFailed,
    RequestRefused,
    ServerChanged,
    Stopping,
    WriterStarted,
    WriterStopped,
)
from plantstore.telemetry.outbox import Outbox
from plantstore.tokens import redact
from plantstore.tracing import known_id

# How long repetitions of a line are only counted.
QUIET_SECONDS: Final = 1.0

# Characters of a path that a line shows.
PATH_CHARACTERS_MAX: Final = 1024

# The refusals that are logged: they point to load, to an attack, or to a limit that is too low.
# The others are mistakes of clients, which are told in the answer.
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
    ReadinessChanged: "ready again",
    Stopping: "stopping",
    WriterStopped: "stopped",
}

# Calls a function on another thread, after a number of seconds.
Later: TypeAlias = Callable[[float, Callable[[], None]], None]


def configure_logs(*, colors: bool = True) -> Outbox:
    """Write the log of this process, and the warnings of its libraries, to stderr.

    Args:
        colors: whether a terminal may be sent colors.

    Returns:
        The queue of the lines. It is closed when the process exits.

    """
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    stamps: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    renderers: list[structlog.typing.Processor] = [
        # By default a traceback includes local variables, which may hold secrets.
        structlog.processors.format_exc_info
        if is_watched
        else structlog.processors.ExceptionRenderer(
            structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
        ),
        _hide_secrets,
        structlog.dev.ConsoleRenderer(
            colors=colors, exception_formatter=structlog.dev.plain_traceback
        )
        if is_watched
        else structlog.processors.JSONRenderer(),
    ]
    # Lines of the service do not pass through `logging`, which costs more than all the rest.
    how: dict[str, Any] = {
        "processors": [*stamps, *renderers],
        "wrapper_class": structlog.make_filtering_bound_logger(logging.INFO),
    }
    rendering = structlog.wrap_logger(structlog.ReturnLogger(), **how)
    outbox = Outbox(
        os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno(),
        lambda lines: f"{rendering.warning(f'{lines} log lines were dropped')}\n",
    )
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(cast("TextIO", outbox)), **how)
    handler = logging.StreamHandler(outbox)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=stamps,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # At a lower level uvicorn writes a line for each bad request, so clients could flood the log.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    return outbox


def _hide_secrets(
    _logger: object, _name: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {key: _redacted(value) for key, value in line.items()}


def _redacted(value: object) -> object:
    match value:
        case str():
            return redact(value)
        case list():
            return [_redacted(each) for each in value]
        case dict():
            return {key: _redacted(each) for key, each in value.items()}
        case _:
            return value


class _Bursts:
    """Writes the first line of a kind, and later one line with the number of repetitions."""

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
    except RuntimeError:  # Too many threads, or the interpreter exits.
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
        elif failure := _failure(event):
            told, error, what = failure
            if isinstance(error, StoreUnavailableError):
                failures.tell(told, error.explanation, **what, reason=error.explanation)
            else:
                failures.tell(told, repr(type(error)), **what, exc_info=error)
        elif isinstance(event, ServerChanged):
            log.info("database server", **asdict(event))
        elif isinstance(event, DatabaseCreated):
            log.info("database created", file=event.file)
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
            shown = _shown_path(path)
            return "request failed", error, {"method": method, "path": shown, "request_id": id_}
        case _:
            return None


def _shown_path(path: str) -> str:
    shown = one_line(redact(path[:PATH_CHARACTERS_MAX]))
    return shown if len(path) <= PATH_CHARACTERS_MAX else f"{shown}..."


def log_answers() -> Observer:
    """Return an observer that writes a line for each answer: the access log."""
    # Bound once, because binding costs more than a line.
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind()

    def observe(event: Event) -> None:
        if not isinstance(event, Answered):
            return
        request = event.request
        id_ = known_id(request["headers"])
        log.info(
            "request",
            method=request["method"],
            path=_shown_path(request["raw_path"].decode()),
            status=event.status,
            seconds=round(event.seconds, 6),
            client=request["client"][0] if request["client"] else None,
            scheme=request["scheme"],
            **({} if id_ is None else {"request_id": id_}),
        )

    return observe
