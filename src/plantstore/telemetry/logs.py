"""The log, on stderr: readable on a terminal, JSON lines otherwise."""

import logging
import sys
import threading
import time
from collections.abc import Callable
from typing import Final

import structlog

from plantstore.errors import StoreUnavailableError
from plantstore.observe import (
    CommitFailed,
    Event,
    LookupFailed,
    Observer,
    ReadFailed,
    ReadinessChanged,
    RequestFailed,
    WriterStarted,
    WriterStopped,
)

# How long a failure of the store is not told again.
QUIET_SECONDS: Final = 1.0


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


class _Failures:
    """Writes a line for a failure, but of the store's one a second of each kind.

    While the store is away, each request is one; the next line has how many `more`
    there were.
    """

    def __init__(self, log: structlog.stdlib.BoundLogger, monotonic: Callable[[], float]) -> None:
        self._log = log
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._quiet: dict[str, tuple[float, int]] = {}

    def tell(self, kind: str, error: BaseException, **what: int) -> None:
        if not isinstance(error, StoreUnavailableError):
            self._log.error(kind, **what, exc_info=error)
            return
        with self._lock:
            now = self._monotonic()
            until, more = self._quiet.get(kind, (now, 0))
            is_told = now >= until
            self._quiet[kind] = (now + QUIET_SECONDS, 0) if is_told else (until, more + 1)
        if is_told:
            what |= {"more": more} if more else {}
            self._log.error(kind, **what, reason=error.explanation)


def log_events(monotonic: Callable[[], float] = time.monotonic) -> Observer:
    """Return an observer that writes a line for each event; see `_Failures` for which not."""
    log: structlog.stdlib.BoundLogger = structlog.get_logger("plantstore")
    failures = _Failures(log, monotonic)

    def observe(event: Event) -> None:
        match event:
            case CommitFailed(error=error, changes=changes):
                failures.tell("commit failed", error, changes=changes)
            case ReadFailed(error=error, reads=reads):
                failures.tell("read failed", error, reads=reads)
            case LookupFailed(error=error):
                failures.tell("token look-up failed", error)
            case ReadinessChanged(error=None):
                log.info("ready again")
            case ReadinessChanged(error=BaseException() as error):
                failures.tell("not ready", error)
            case RequestFailed(error=error, method=method, path=path):
                log.error("request failed", method=method, path=path, exc_info=error)
            case WriterStarted():
                log.info("accepting plants")
            case WriterStopped():
                log.info("stopped")

    return observe
