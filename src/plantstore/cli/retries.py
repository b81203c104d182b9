"""Repeats requests that fail because the service is unreachable or busy."""

import math
import random
import time
from collections.abc import Callable
from typing import Final, TypeVar

import click

from plantstore.errors import OperationError, one_line

# How long a failing request is repeated.
RETRY_SECONDS_MAX: Final = 120

# The pause after the first failure. It doubles after each failure, up to a maximum, unless the
# service asks for a longer one.
_PAUSE_SECONDS_MIN: Final = 0.1
_PAUSE_SECONDS_MAX: Final = 10

ResultT = TypeVar("ResultT")


class InterruptedRequestError(Exception):
    """A request failed, and may succeed later.

    Attributes:
        pause_seconds: how long the service asks to wait before the request is repeated.

    """

    def __init__(self, reason: str, pause_seconds: float = 0) -> None:
        super().__init__(one_line(reason))
        self.pause_seconds = pause_seconds


def with_retries(
    run: Callable[[], ResultT],
    service: str,
    *,
    monotonic: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> ResultT:
    """Call a function that sends requests; again, with longer pauses, if it is interrupted.

    Args:
        run: raises InterruptedRequestError if it may succeed later.
        service: the name of the service, for error messages.
        monotonic: a clock in seconds that never goes back.
        sleep: waits for so many seconds.

    Raises:
        OperationError: there was no success for RETRY_SECONDS_MAX after an interruption.

    """
    gives_up_at = math.inf
    pause = _PAUSE_SECONDS_MIN
    while True:
        try:
            return run()
        except InterruptedRequestError as error:
            gives_up_at = min(gives_up_at, monotonic() + RETRY_SECONDS_MAX)
            seconds = max(error.pause_seconds, random.uniform(pause / 2, pause))  # noqa: S311 (no secret)
            if monotonic() + seconds > gives_up_at:
                raise OperationError(
                    f"{service} failed for {RETRY_SECONDS_MAX} seconds, now with: {error}"
                ) from error
            if pause > 1:
                click.echo(f"Warning: {error}; trying again", err=True)
            sleep(seconds)
            pause = min(2 * pause, _PAUSE_SECONDS_MAX)
