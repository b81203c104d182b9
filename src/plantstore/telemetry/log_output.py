"""The configuration of the log on stderr: text on a terminal, JSON lines otherwise."""

import logging
import os
import sys
from typing import Any, TextIO, cast

import structlog

from plantstore.telemetry.outbox import Outbox
from plantstore.tokens import redact


def configure_logs(*, colors: bool = True) -> Outbox:
    """Write the log of this process, and the warnings of its libraries, to stderr.

    Args:
        colors: whether lines on a terminal may have colors.

    Returns:
        The queue of the lines. It is closed when the process exits.

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
