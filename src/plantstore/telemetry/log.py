"""The log on stderr: what is logged, how a line looks, and how it is written.

Theory of operation
-------------------
The observers write a line for each event, or for a burst of equal events. A line is text on a
terminal and a JSON object otherwise. Secrets are removed from every string of a line.

A write to a full pipe blocks until somebody reads from the pipe, and a write to a full disk
fails. So a line is only put into a bounded queue, and a thread writes the queue to the file.
Logging never blocks: if the queue is full, the line is dropped and counted.

The thread writes to the file descriptor. Python's own streams have a lock, and the interpreter
would wait for this lock when it exits. The queue is one that a handler of signals may use: it may
have interrupted a call of the same queue.
"""

import atexit
import logging
import math
import os
import queue
import sys
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TextIO, cast

import structlog
from msgspec.structs import asdict

from plantstore.errors import ErrorCode, StoreUnavailableError, one_line, shorten
from plantstore.messages import known_id
from plantstore.observe import (
    CommitFailed,
    DamagedPlantsExported,
    DatabaseCreated,
    Event,
    ExportCutOff,
    HardLinksFound,
    Observer,
    ReadFailed,
    ReadinessChanged,
    RequestFailed,
    RequestRefused,
    Responded,
    ServerChanged,
    Started,
    Stopped,
    Stopping,
    WorkerFailed,
    migration_progress,
)
from plantstore.tokens import redact

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
_LOGGED_REFUSALS: Final = frozenset(
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
    Started: "accepting plants",
    ReadinessChanged: "ready again",
    Stopping: "stopping",
    Stopped: "stopped",
    ServerChanged: "database server",
    DatabaseCreated: "database created",
    HardLinksFound: "database has several names (hard links)",
    DamagedPlantsExported: "damaged plants exported",
}
_WARNINGS: Final = (DatabaseCreated, HardLinksFound, DamagedPlantsExported)

# Kinds of lines that are remembered. Some are messages of a database, of which there may be many.
_KINDS_MAX: Final = 1_000


class _Bursts:
    """Writes the first line of a kind, and at most one further line in QUIET_SECONDS."""

    def __init__(self, write: Callable[..., Any], monotonic: Callable[[], float]) -> None:
        self._write = write
        self._monotonic = monotonic
        self._lock = threading.Lock()
        # When the last line of each kind was written, and how many followed that were not.
        self._written: dict[tuple[str, str], tuple[float, int]] = {}

    def write(self, line: str, kind: str = "", **what: object) -> None:
        """Write a line, or count it if one of its kind was written within QUIET_SECONDS."""
        key, now = (line, kind), self._monotonic()
        with self._lock:
            written_at, more = self._written.get(key, (-math.inf, 0))
            is_due = now - written_at >= QUIET_SECONDS
            if is_due and len(self._written) >= _KINDS_MAX:
                self._written.clear()
            self._written[key] = (now, 0) if is_due else (written_at, more + 1)
        if is_due:
            self._write(line, **what, **({"more": more} if more else {}))

    def write_error(self, line: str, error: BaseException, **what: object) -> None:
        """Write or count a line with the reason or, for an unexpected error, its traceback."""
        if isinstance(error, StoreUnavailableError):
            self.write(line, error.explanation, **what, reason=error.explanation)
        else:
            self.write(line, repr(type(error)), **what, exc_info=error)


def log_events(monotonic: Callable[[], float] = time.monotonic) -> Observer:
    """Return an observer that writes a line for each event, or for a burst of equal events."""
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind()
    return partial(_log_event, log, _Bursts(log.error, monotonic), _Bursts(log.warning, monotonic))


def _log_event(
    log: structlog.typing.FilteringBoundLogger, failures: _Bursts, refusals: _Bursts, event: Event
) -> None:
    match event:
        case RequestRefused(code=code, client=client) if code in _LOGGED_REFUSALS:
            what = {"client": _shown(client[0])} if client else {}
            refusals.write("refused", code.name, reason=code.name.lower(), **what)
        case ExportCutOff(error=refusal):
            refusals.write("export cut off", refusal.code.name, reason=refusal.message)
        case CommitFailed(error=error, changes=changes):
            failures.write_error("commit failed", error, changes=changes)
        case ReadFailed(error=error, reads=reads):
            failures.write_error("read failed", error, reads=reads)
        case RequestFailed(error=error, method=method, path=path, request_id=id_):
            shown = _shown(path)
            failures.write_error("request failed", error, method=method, path=shown, request_id=id_)
        case ReadinessChanged(error=BaseException() as why):
            failures.write_error("not ready", why)
        case WorkerFailed(worker=worker, reason=reason):
            refusals.write("worker failed", reason, worker=worker, reason=reason)
        case _:
            if line := _LINES.get(type(event)) or migration_progress(event):
                what = {key: value for key, value in asdict(event).items() if key != "error"}
                (log.warning if isinstance(event, _WARNINGS) else log.info)(line, **what)


def _shown(text: str) -> str:
    return one_line(shorten(text, SHOWN_CHARACTERS_MAX))


def log_responses() -> Observer:
    """Return an observer that writes the access log: a line for each response."""
    # Bind only once, because binding takes longer than writing a line.
    log: structlog.typing.FilteringBoundLogger = structlog.get_logger().bind()

    def observe(event: Event) -> None:
        if not isinstance(event, Responded):
            return
        request = event.request
        id_ = known_id(request.fields)
        log.info(
            "request",
            method=request.method,
            path=_shown(request.raw_path),
            status=event.status,
            seconds=round(event.seconds, 6),
            client=_shown(request.client[0]) if request.client else None,
            scheme=request.scheme,
            **({} if id_ is None else {"request_id": id_}),
        )

    return observe


def configure_logs() -> "LogQueue":
    """Write the log of this process, and the warnings of its libraries, to stderr.

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
        # It leaves out local variables, which may hold secrets.
        structlog.processors.format_exc_info,
        _hide_secrets,
        structlog.dev.ConsoleRenderer(
            colors=not os.environ.get("NO_COLOR"),  # https://no-color.org
            exception_formatter=structlog.dev.plain_traceback,
        )
        if is_watched
        else structlog.processors.JSONRenderer(),
    ]
    log = LogQueue(os.open(os.devnull, os.O_WRONLY) if sys.stderr is None else sys.stderr.fileno())
    # Lines of the service bypass `logging`: one of the access log takes 15 us of CPU time so, and
    # 29 us through `logging`.
    structlog.configure(
        processors=[*stamps, *renderers],
        wrapper_class=structlog.make_filtering_bound_logger(logging.INFO),
        logger_factory=structlog.WriteLoggerFactory(cast("TextIO", log)),
    )
    handler = logging.StreamHandler(cast("TextIO", log))
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            foreign_pre_chain=stamps,
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *renderers],
        )
    )
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    return log


def _add_process_id(
    _logger: object, _name: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    line["pid"] = os.getpid()  # several processes may write to one log
    return line


def _hide_secrets(
    _logger: object, _name: str, line: structlog.typing.EventDict
) -> structlog.typing.EventDict:
    return {key: redact(value) if isinstance(value, str) else value for key, value in line.items()}


class LogQueue:
    """A file whose lines go into a bounded queue, which a thread writes. It never blocks.

    Args:
        descriptor: the file that the lines are written to.

    Attributes:
        dropped: the number of lines that were dropped.

    """

    def __init__(self, descriptor: int) -> None:
        self._lines: queue.SimpleQueue[str | threading.Event] = queue.SimpleQueue()
        self._descriptor = descriptor
        self._lock = threading.Lock()
        self.dropped = 0
        threading.Thread(target=self._write_lines, name="log", daemon=True).start()
        atexit.register(self.drain)

    def write(self, line: str) -> None:
        """Put a line into the queue, or drop it if the queue is full."""
        if self._lines.qsize() < QUEUE_LINES_MAX:
            self._lines.put(line)
        else:
            self._drop()

    def flush(self) -> None:
        """Do nothing: the thread writes each line at once."""

    def drain(self, seconds: float = FLUSH_SECONDS) -> None:
        """Wait until the lines of the queue are written, for about so many seconds at most."""
        written = threading.Event()
        self._lines.put(written)
        written.wait(seconds)

    def _drop(self) -> None:
        with self._lock:
            self.dropped += 1

    def _write_lines(self) -> None:
        while True:
            line = self._lines.get()
            if isinstance(line, threading.Event):
                line.set()
                continue
            rest = line.encode(errors="backslashreplace")
            try:
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
            except OSError:  # the disk is full, or the reader has ended
                self._drop()
