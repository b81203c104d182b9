"""The errors of this project, and the error numbers that clients rely on.

A number never changes its meaning; docs/errors.md lists all of them. The HTTP status
of each number is in `plantstore.api.error_responses`.
"""

import json
import re
from collections.abc import Mapping
from enum import IntEnum
from typing import Final

from plantstore.tokens import redact


class ErrorCode(IntEnum):
    """The `error` member of an Error record: an int32 that never changes its meaning."""

    # 1xxx: the plant.
    NOT_JSON = 1001
    INVALID_PLANT = 1002
    UNSTORABLE_TEXT = 1003
    ID_TAKEN = 1004
    NO_SUCH_PLANT = 1005
    IDS_EXHAUSTED = 1006

    # 2xxx: the token.
    TOKEN_MISSING = 2001
    TOKEN_INVALID = 2002
    SCOPE_MISSING = 2003
    RATE_EXCEEDED = 2004

    # 3xxx: the HTTP request.
    BAD_REQUEST = 3001
    NOT_FOUND = 3002
    METHOD_NOT_ALLOWED = 3003
    BODY_TOO_LARGE = 3004
    UNSUPPORTED_MEDIA_TYPE = 3005
    INVALID_PARAMETER = 3006
    REQUEST_TIMEOUT = 3007
    HEAD_TOO_LARGE = 3008
    NOT_IMPLEMENTED = 3009
    NOT_ACCEPTABLE = 3010
    PRECONDITION_FAILED = 3011

    # 4xxx: the feed of changes.
    FEED_OFF = 4001
    CHANGES_GONE = 4002
    NO_SUCH_SET = 4003
    SET_CLOSED = 4004

    # 5xxx: the service.
    INTERNAL = 5001
    OVERLOADED = 5002
    STORE_UNAVAILABLE = 5003
    TOO_MANY_CONNECTIONS = 5004


def one_line(text: str) -> str:
    """Return a text in which U+FFFD replaces each character that cannot be printed."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


def shorten(text: str, characters_max: int = 40) -> str:
    """Return a text as a message quotes it: only its beginning, if it is longer."""
    return text if len(text) <= characters_max else f"{text[:characters_max]}..."


_NUMBER: Final = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?", re.ASCII)


def quoted(text: str, characters_max: int = 40) -> str:
    """Return a text as a message quotes what it got: as JSON does, and a number bare."""
    shown = shorten(text, characters_max)
    return shown if _NUMBER.fullmatch(text) else json.dumps(shown, ensure_ascii=False)


class PlantStoreError(Exception):
    """The base class of all errors that this project raises on purpose.

    `message` is one line for people. It says what is required and what was given, never
    quotes the secret of a token, and shows U+FFFD for characters that cannot be printed.
    """

    def __init__(self, message: str) -> None:
        message = one_line(redact(message))
        super().__init__(message)
        self.message = message

    @property
    def explanation(self) -> str:
        """The message, with details that are meant only for operators."""
        return self.message


class UsageError(PlantStoreError):
    """A command or a setting is wrong, so a retry cannot succeed."""


class OperationError(PlantStoreError):
    """A command is correct, but cannot be carried out now: a name is taken, a file exists."""


class RequestError(PlantStoreError):
    """A request is refused or failed; `code` is the error number that the client gets.

    `lines_stored_through` is set if an import failed: the rows up to this line are done; 0 if none
    is known to be. `first_number` is set if older changes are no longer kept. `headers` are
    header fields of its response, besides those that all errors with this number have.
    """

    lines_stored_through: int | None = None
    first_number: int | None = None

    def __init__(
        self, code: ErrorCode, message: str, headers: Mapping[str, str] | None = None
    ) -> None:
        super().__init__(message)
        self.code = code
        self.headers = headers or {}

    def again(self) -> "RequestError":
        """Return an error with the same response: each raise adds a traceback of its own."""
        error = RequestError(self.code, self.message, self.headers)
        error.first_number = self.first_number
        return error


class InternalError(RequestError):
    """The service met an unexpected error. The message is fixed, and reveals nothing."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INTERNAL, "The service met an unexpected error")


class ClientGoneError(RequestError):
    """The client disconnected before its request was complete. Nobody gets a response."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.BAD_REQUEST, "The body is truncated")


class QueueFullError(RequestError):
    """OVERLOADED: too many requests wait. The request was not begun."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.OVERLOADED, "Too many requests wait; nothing was done")


class IdTakenError(RequestError):
    """Another plant is stored under the id."""

    def __init__(self, id_: int) -> None:
        super().__init__(
            ErrorCode.ID_TAKEN, f"`id` is taken: another plant is stored under the id {id_}"
        )


class FeedError(RequestError):
    """FEED_OFF or CHANGES_GONE: a follower cannot continue. NO_SUCH_SET: no set has the name.

    `first_number` is the number of the first change that is kept, or None.
    """

    def __init__(self, code: ErrorCode, message: str, first_number: int | None = None) -> None:
        super().__init__(code, message)
        self.first_number = first_number


class StoreUnavailableError(RequestError):
    """The store cannot be opened, read or written now; a later try may succeed.

    `reason` is the message of the database. It is for operators only, since it may contain
    the names of hosts and users.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(ErrorCode.STORE_UNAVAILABLE, message)
        self.reason = reason

    @property
    def explanation(self) -> str:
        """The message, with the reason."""
        return f"{self.message}: {self.reason}" if self.reason else self.message


class NothingDoneError(StoreUnavailableError):
    """The store is unavailable, and has certainly not performed the operation."""


class SchemaOutdatedError(StoreUnavailableError):
    """The schema is of an older version. The message ends with the command that updates it."""


class BatchRefusedError(StoreUnavailableError):
    """The store refused a whole batch, perhaps because of one change or read; nothing was done."""
