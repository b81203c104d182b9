"""The log on stderr: what is logged, how a line looks, and how it is written.

Theory of operation
-------------------
The observers write a line for each event, or for a burst of equal events. A line is text on a
terminal and a JSON object otherwise. Secrets are removed from every string of a line.

A write to a full pipe blocks until somebody reads from the pipe, and a write to a full disk
fails. So a line is only put into a bounded queue, and a thread writes the queue to the file.
Logging never blocks: if the queue is full, the line is dropped and counted. After the next
successful write, a line reports how many lines were dropped.

The thread writes to the file descriptor. Python's own streams have a lock, and the interpreter
would wait for this lock when it exits.
"""

import atexit
import contextlib
import logging
import os
import queue
import select
import sys
import threading
from collections.abc import Callable
from logging.handlers import QueueHandler, QueueListener
from typing import Any, Final, TextIO, TypeAlias, cast

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

# Maximum number of lines in the queue: about a second of the access log under full load. Most lines
# have some hundred bytes, and the longest of the access log a few KiB, because its path is limited.
QUEUE_LINES_MAX: Final = 4096

# How long a process waits for the queue to become empty, when it starts and when it exits.
FLUSH_SECONDS: Final = 1.0

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
    shown = one_line(text[:SHOWN_CHARACTERS_MAX])
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


def configure_logs(*, colors: bool = True) -> "LogQueue":
    """Write the log of this process, and the warnings of its libraries, to stderr.

    Args:
        colors: whether lines on a terminal may have colors.

    Returns:
        The queue of the lines. A process that exits waits for it, for FLUSH_SECONDS at most.

    """
    is_watched = sys.stderr is not None and sys.stderr.isatty()
    stamps: list[structlog.typing.Processor] = [
        structlog.stdlib.add_log_level,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
        _add_process_id,
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
    # Lines of the service bypass `logging`, which would take longer than everything else here.
    how: dict[str, Any] = {
        "processors": [*stamps, *renderers],
        "wrapper_class": structlog.make_filtering_bound_logger(logging.INFO),
    }
    rendering = structlog.wrap_logger(structlog.ReturnLogger(), **how)
    log = LogQueue(
        os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno(),
        lambda lines: f"{rendering.warning(f'{lines} log lines were dropped')}\n",
    )
    structlog.configure(logger_factory=structlog.WriteLoggerFactory(cast("TextIO", log)), **how)
    log.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=stamps,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    logging.basicConfig(handlers=[log], level=logging.WARNING, force=True)
    # At a lower level uvicorn writes a line for each bad request, so clients could flood the log.
    logging.getLogger("uvicorn").setLevel(logging.ERROR)
    return log


def _add_process_id(
    _logger: object, _name: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    line["pid"] = os.getpid()  # several processes may write to one log
    return line


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


class LogQueue(QueueHandler):
    """Puts lines into a bounded queue, which a thread writes to a file. It never blocks.

    It is a handler for the lines of libraries, and a file for our own lines, which bypass
    `logging`.

    Args:
        descriptor: the file that the lines are written to.
        notice: renders the line that reports how many lines were dropped.

    """

    def __init__(self, descriptor: int, notice: Callable[[int], str]) -> None:
        self._lines: queue.Queue[Any] = queue.Queue(QUEUE_LINES_MAX)
        super().__init__(self._lines)
        self._writer = _LineWriter(self._lines, descriptor, notice)
        self._writer.start()
        # QueueListener.stop would wait for the reader of a full pipe without a limit.
        atexit.register(self.drain)

    @property
    def dropped(self) -> int:
        """The number of lines that were dropped."""
        return self._writer.dropped

    def prepare(self, record: logging.LogRecord) -> str:
        """Return the line of a record. A queued record would keep the frames of a traceback."""
        return f"{self.format(record)}\n"

    def enqueue(self, record: str) -> None:  # type: ignore[override]  # `prepare` returns lines
        """Put a line into the queue, or drop it if the queue is full."""
        try:
            self._lines.put_nowait(record)
        except queue.Full:
            self._writer.drop(1)

    write = enqueue

    def drain(self) -> None:
        """Wait until the lines of the queue are written, for FLUSH_SECONDS at most."""
        written = threading.Event()
        with contextlib.suppress(queue.Full):
            self._lines.put(written, timeout=FLUSH_SECONDS)
            written.wait(FLUSH_SECONDS)


class _LineWriter(QueueListener):
    """Writes the queue to a file, on a thread."""

    def __init__(
        self, lines: "queue.Queue[Any]", descriptor: int, notice: Callable[[int], str]
    ) -> None:
        super().__init__(lines)
        self._descriptor = descriptor
        self._notice = notice
        self._lock = threading.Lock()
        self.dropped = 0
        self._reported = 0
        self._ends_within_a_line = False

    def drop(self, lines: int) -> None:
        """Count lines that are not written."""
        with self._lock:
            self.dropped += lines

    def handle(self, record: Any) -> None:  # noqa: ANN401 (a line, or the event of a `drain`)
        """Write a line."""
        if isinstance(record, threading.Event):
            record.set()
        elif not self._write(record):
            self.drop(1)
        elif (dropped := self.dropped) > self._reported and self._write(
            self._notice(dropped - self._reported)
        ):
            self._reported = dropped

    def _write(self, line: str) -> bool:
        """Write a line, and return whether it could be written completely."""
        data = rest = b"\n" * self._ends_within_a_line + line.encode(errors="backslashreplace")
        while rest:
            try:
                rest = rest[os.write(self._descriptor, rest) :]
            except BlockingIOError:  # another process that has this file open made it non-blocking
                select.select([], [self._descriptor], [])
            except OSError:
                break
        if rest != data:
            self._ends_within_a_line = bool(rest)
        return not rest
