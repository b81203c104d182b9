"""Translates the errors of PostgreSQL by their SQLSTATE, never by their message.

The classes are listed at https://www.postgresql.org/docs/current/errcodes-appendix.html. An
unknown SQLSTATE counts as a fault of the server.
"""

import contextlib
from collections.abc import Iterator
from typing import Final

import psycopg
from psycopg import errors

from plantstore.errors import BatchRefusedError, StoreUnavailableError, StoreUnreachableError

# Maximum length of a reason in a message for operators.
REASON_CHARACTERS_MAX: Final = 200

# The class of errors that only a programming error of ours can cause, such as syntax, and those
# errors of the class that an operator can cause.
_OUR_CLASS: Final = "42"
_MISSING: Final = (errors.UndefinedColumn, errors.UndefinedTable)

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
        if is_ours and not isinstance(error, (psycopg.OperationalError, *_MISSING)):
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
