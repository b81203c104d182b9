"""What the errors of PostgreSQL mean: by their SQLSTATE, never by their words.

https://www.postgresql.org/docs/current/errcodes-appendix.html has the classes. What is not
known is the server's fault: other engines that speak its language have codes of their own.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import psycopg
from psycopg import errors

from plantstore.errors import BatchRefusedError, StoreUnavailableError

ResultT = TypeVar("ResultT")

# As much of why something failed as an operator is shown.
REASON_CHARACTERS_MAX: Final = 200

# How often a transaction is made again that the engine gave up for others at the same time,
# and how long it waits before that, at most, at first; then twice as long each time.
TRIES_MAX: Final = 10
RETRY_SECONDS: Final = 0.002

# What is not there, or not allowed: an operator's doing, or another engine.
MISSING: Final = (
    errors.FeatureNotSupported,  # also a plan that is older than its table
    errors.InsufficientPrivilege,
    errors.InvalidSchemaName,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.UndefinedTable,
)

_GIVEN_UP: Final = (errors.SerializationFailure, errors.DeadlockDetected)

# The classes in which a bug of ours would lie: data, syntax; and those in which a statement is
# refused for a row of it: by a constraint, a trigger or a view that an operator added.
_OUR_CLASSES: Final = ("22", "42")
_ROW_CLASSES: Final = ("23", "27", "44", "P0")


@contextlib.contextmanager
def errors_as_ours(what: str) -> Iterator[None]:
    """Raise what the server is to blame for as StoreUnavailableError; a bug stays a bug.

    Args:
        what: what failed if an error is raised.

    Raises:
        BatchRefusedError: it lies in a row.
        StoreUnavailableError: it lies elsewhere.

    """
    try:
        yield
    except psycopg.Error as error:
        kind = (error.sqlstate or "")[:2]
        if kind in _ROW_CLASSES:
            raise BatchRefusedError(what, reason_of(error)) from error
        is_ours = not error.sqlstate or kind in _OUR_CLASSES
        if is_ours and not isinstance(error, (psycopg.OperationalError, *MISSING)):
            raise
        raise StoreUnavailableError(what, reason_of(error)) from error


@contextlib.contextmanager
def after_a_commit() -> Iterator[None]:
    """Raise what refuses a row as a fault of the server: a part of the batch is done already."""
    try:
        yield
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] in _ROW_CLASSES:
            raise psycopg.OperationalError(reason_of(error)) from error
        raise


def retried(run: Callable[[], ResultT]) -> ResultT:
    """Run a transaction, again if the engine gave it up for others at the same time.

    PostgreSQL asks for that (https://www.postgresql.org/docs/current/mvcc-serialization-failure-handling.html),
    and so do the engines that speak its language.
    """
    for number in range(TRIES_MAX - 1):
        try:
            return run()
        except _GIVEN_UP:
            time.sleep(random.uniform(0, RETRY_SECONDS * 2**number))  # noqa: S311
    return run()


def reason_of(error: psycopg.Error) -> str:
    """Return what the server said, or libpq, in one line, with its SQLSTATE."""
    said = error.diag.message_primary
    if said is None:
        # libpq names the server in front, and may give advice in the next lines.
        said = str(error).partition("\n")[0].rpartition("failed: ")[2]
        said = said.removeprefix("FATAL:  ")
    return f"{said} ({error.sqlstate})" if error.sqlstate else said


def shortened(reason: str) -> str:
    """Return a reason, or as much of it as an operator is shown."""
    if len(reason) <= REASON_CHARACTERS_MAX:
        return reason
    return f"{reason[: REASON_CHARACTERS_MAX - 3]}..."
