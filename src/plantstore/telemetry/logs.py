"""The log, on stderr: readable on a terminal, JSON lines otherwise."""

import logging
import sys
import threading
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import structlog

from plantstore.errors import ErrorCode, StoreUnavailableError
from plantstore.observe import (
    AnswerObserver,
    CommitFailed,
    Event,
    LookupFailed,
    Observer,
    ReadFailed,
    ReadinessChanged,
    RequestFailed,
    RequestRefused,
    Stopping,
    WriterStarted,
    WriterStopped,
)
from plantstore.tokens import redact
from plantstore.tracing import continued_trace

# For how long what repeats is only counted.
QUIET_SECONDS: Final = 1.0

# Why requests are refused that tells an operator of load, of an attack, or of a limit
# that is too tight. What is wrong with the others is for their clients to know.
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

# Calls a function after so many seconds, on a thread.
Later: TypeAlias = Callable[[float, Callable[[], None]], None]


def configure_logs() -> None:
    """Send this process's log, and the warnings of the libraries below it, to stderr."""
    stamps: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]
    # By default both would write the local variables of each frame, and with them tokens.
    renderers: list[structlog.typing.Processor] = (
        [structlog.dev.ConsoleRenderer(exception_formatter=structlog.dev.plain_traceback)]
        if sys.stderr.isatty()
        else [
            structlog.processors.ExceptionRenderer(
                structlog.tracebacks.ExceptionDictTransformer(show_locals=False)
            ),
            structlog.processors.JSONRenderer(),
        ]
    )
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=stamps,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    logging.getLogger("plantstore").setLevel(logging.INFO)
    # Below this, uvicorn writes a line for each bad request, as many as anybody likes.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    structlog.configure(
        processors=[*stamps, structlog.stdlib.ProcessorFormatter.wrap_for_formatter],
        logger_factory=structlog.stdlib.LoggerFactory(),
        wrapper_class=structlog.stdlib.BoundLogger,
    )


class _Bursts:
    """Writes a line for the first of a kind, and, after a while, one for all that followed."""

    def __init__(self, write: Callable[..., Any], later: Later) -> None:
        self._write = write
        self._later = later
        self._lock = threading.Lock()
        self._more: dict[tuple[object, ...], int] = {}

    def tell(self, line: str, kind: str = "", **what: object) -> None:
        """Write a line, unless one of its kind was written just now."""
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
    except RuntimeError:  # There may be too many threads, or an end of all.
        call()


def log_events(later: Later = _on_a_timer) -> Observer:
    """Return an observer that writes a line for each event, or for a burst of them.

    Args:
        later: waits for the end of a burst.

    """
    log: structlog.stdlib.BoundLogger = structlog.get_logger("plantstore")
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
        elif line := _LINES.get(type(event)):
            log.info(line)

    return observe


def _failure(event: Event) -> tuple[str, BaseException, dict[str, object]] | None:
    """Return the line that tells of a failure, its error, and what else there is to say."""
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
            return (
                "request failed",
                error,
                {"method": method, "path": redact(path), "request_id": id_},
            )
        case _:
            return None


def log_answers() -> AnswerObserver:
    """Return an observer that writes a line for each answer: the access log."""
    log: structlog.stdlib.BoundLogger = structlog.get_logger("plantstore")

    def observe(request: Mapping[str, Any], _route: str, status: int, seconds: float) -> None:
        trace = continued_trace(request["headers"])
        log.info(
            "request",
            method=request["method"],
            path=redact(request["raw_path"].decode()),
            status=status,
            seconds=round(seconds, 6),
            client=request["client"][0] if request["client"] else None,
            **({} if trace is None else {"request_id": trace}),
        )

    return observe
