"""The log, on stderr: readable on a terminal, JSON lines otherwise."""

import logging
import sys

import structlog

from plantstore.errors import StoreUnavailableError
from plantstore.observe import (
    CommitFailed,
    Event,
    Observer,
    ReadFailed,
    RequestFailed,
    WriterStarted,
    WriterStopped,
)


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


def log_events() -> Observer:
    """Return an observer that writes a line for each event."""
    log: structlog.stdlib.BoundLogger = structlog.get_logger("plantstore")

    def observe(event: Event) -> None:
        match event:
            case CommitFailed(error=StoreUnavailableError() as error, changes=changes):
                log.error("commit failed", changes=changes, reason=error.explanation)
            case CommitFailed(error=error, changes=changes):
                log.error("commit failed", changes=changes, exc_info=error)
            case ReadFailed(error=StoreUnavailableError() as error, reads=reads):
                log.error("read failed", reads=reads, reason=error.explanation)
            case ReadFailed(error=error, reads=reads):
                log.error("read failed", reads=reads, exc_info=error)
            case RequestFailed(error=error, method=method, path=path):
                log.error("request failed", method=method, path=path, exc_info=error)
            case WriterStarted():
                log.info("accepting plants")
            case WriterStopped():
                log.info("stopped")

    return observe
