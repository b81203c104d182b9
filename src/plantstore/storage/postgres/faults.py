"""Translates the errors of PostgreSQL by their SQLSTATE, never by their message.

The classes are listed at https://www.postgresql.org/docs/current/errcodes-appendix.html. An
unknown SQLSTATE counts as a fault of the server, because compatible engines have codes of their
own.
"""

import contextlib
import random
import time
from collections.abc import Callable, Iterator
from typing import Final, TypeVar

import psycopg
from psycopg import errors

from plantstore.errors import BatchRefusedError, StoreUnavailableError, StoreUnreachableError

ResultT = TypeVar("ResultT")

# Maximum length of a reason in a message for operators.
REASON_CHARACTERS_MAX: Final = 200

# How often a transaction is tried if the engine aborts it because of concurrent transactions, and
# the longest pause before the second try. The longest pause doubles with each further try.
TRIES_MAX: Final = 10
RETRY_SECONDS: Final = 0.002

# Errors about something that does not exist, or is not allowed. The operator may have caused
# them, or the engine is not PostgreSQL.
MISSING: Final = (
    errors.FeatureNotSupported,  # also: a cached plan is older than its table
    errors.InsufficientPrivilege,
    errors.InvalidSchemaName,
    errors.UndefinedColumn,
    errors.UndefinedFunction,
    errors.UndefinedTable,
)

_ABORTED: Final = (errors.SerializationFailure, errors.DeadlockDetected)

# The class of errors that only a programming error of ours can cause: syntax.
_OUR_CLASS: Final = "42"

# The classes of errors that a single row can cause: the operator may have added a constraint, a
# trigger or a view that refuses it, or whose data types cannot hold it.
_ROW_CLASSES: Final = ("22", "23", "27", "44", "P0")


@contextlib.contextmanager
def translate_errors(what: str) -> Iterator[None]:
    """Raise StoreUnavailableError for faults of the server; let programming errors pass.

    Args:
        what: the message.

    Raises:
        BatchRefusedError: a single row may have caused the error.
        StoreUnavailableError: the server caused the error.

    """
    try:
        yield
    except psycopg.Error as error:
        kind = (error.sqlstate or "")[:2]
        if kind in _ROW_CLASSES:
            raise BatchRefusedError(what, reason_of(error)) from error
        if isinstance(error, errors.InsufficientPrivilege):
            raise lacking(what, str(error.diag.message_primary)) from error
        # Without an SQLSTATE, a plain DatabaseError is from libpq, which has lost the connection.
        is_ours = kind == _OUR_CLASS or not (error.sqlstate or type(error) is psycopg.DatabaseError)
        if is_ours and not isinstance(error, (psycopg.OperationalError, *MISSING)):
            raise
        raise StoreUnavailableError(what, reason_of(error)) from error


def lacking(what: str, right: str) -> StoreUnavailableError:
    """Return the error for a right that the role of the service lacks.

    Its message names the right, also in responses: only the owner of the tables can correct it.
    """
    return StoreUnavailableError(
        f"{what}: {right}; run plantstore migrate --grant-to ROLE as the owner",
        f"SQLSTATE {errors.InsufficientPrivilege.sqlstate}",
    )


@contextlib.contextmanager
def after_a_commit() -> Iterator[None]:
    """Raise refusals of a row, or of the whole batch, as faults of the server.

    Errors that say that nothing was done would be wrong here: a part is committed already.
    """
    try:
        yield
    except StoreUnreachableError as error:
        raise StoreUnavailableError(error.message, error.reason) from error
    except psycopg.Error as error:
        if (error.sqlstate or "")[:2] in _ROW_CLASSES:
            raise psycopg.OperationalError(reason_of(error)) from error
        raise


def retried(run: Callable[[], ResultT]) -> ResultT:
    """Run a transaction, and retry it if the engine aborts it because of concurrent ones.

    PostgreSQL and compatible engines require this from their clients
    (https://www.postgresql.org/docs/current/mvcc-serialization-failure-handling.html).
    """
    for number in range(TRIES_MAX - 1):
        try:
            return run()
        except _ABORTED:
            time.sleep(random.uniform(0, RETRY_SECONDS * 2**number))  # noqa: S311
    return run()


def reason_of(error: psycopg.Error) -> str:
    """Return the message of the server or of libpq in one line, with its SQLSTATE."""
    said = error.diag.message_primary
    if said is None:
        # A message of libpq begins with the server's name, and may have more lines with advice.
        said = core_of(str(error).partition("\n")[0])
    return f"{said} ({error.sqlstate})" if error.sqlstate else said


def core_of(message: str) -> str:
    """Return the end of a line of libpq, which says what the server said."""
    return message.rpartition("failed: ")[2].removeprefix("FATAL:  ")


def shortened(reason: str) -> str:
    """Return a reason, cut to REASON_CHARACTERS_MAX."""
    if len(reason) <= REASON_CHARACTERS_MAX:
        return reason
    return f"{reason[: REASON_CHARACTERS_MAX - 3]}..."
