"""What can go wrong, each with a number that clients may rely on.

A number, once given, keeps its meaning for ever; docs/errors.md lists them all.
Which HTTP status answers which number is for `plantstore.api.errors` to say.
"""

from enum import IntEnum

from plantstore.tokens import redact


class ErrorCode(IntEnum):
    """The `error` member of an Error record: an int32 that never changes its meaning."""

    # The record: 1xxx.
    NOT_JSON = 1001
    INVALID_PLANT = 1002
    UNSTORABLE_TEXT = 1003
    ID_TAKEN = 1004
    NO_SUCH_PLANT = 1005

    # The token: 2xxx.
    TOKEN_MISSING = 2001
    TOKEN_INVALID = 2002
    SCOPE_MISSING = 2003
    RATE_EXCEEDED = 2004

    # The request, as HTTP sees it: 3xxx.
    BAD_REQUEST = 3001
    NOT_FOUND = 3002
    METHOD_NOT_ALLOWED = 3003
    BODY_TOO_LARGE = 3004
    UNSUPPORTED_MEDIA_TYPE = 3005
    INVALID_PARAMETER = 3006
    REQUEST_TIMEOUT = 3007
    HEAD_TOO_LARGE = 3008
    NOT_IMPLEMENTED = 3009

    # The service: 5xxx.
    INTERNAL = 5001
    OVERLOADED = 5002
    STORE_UNAVAILABLE = 5003
    TOO_MANY_CONNECTIONS = 5004


def one_line(text: str) -> str:
    """Return a text with U+FFFD in the place of what cannot be printed."""
    if text.isprintable():
        return text
    return "".join(char if char.isprintable() else "\ufffd" for char in text)


class PlantStoreError(Exception):
    """What this project raises on purpose; `message` is one line for a person to read.

    It names what was expected and what came, and never quotes the secret of a token. What
    cannot be printed of what came shows as U+FFFD.
    """

    def __init__(self, message: str) -> None:
        message = one_line(redact(message))
        super().__init__(message)
        self.message = message

    @property
    def explanation(self) -> str:
        """The message, with what only an operator is to read."""
        return self.message


class UsageError(PlantStoreError):
    """The operator asked for something that cannot be: a bad setting, a name that is taken."""


class RequestError(PlantStoreError):
    """A request cannot be served; `code` is the number that its caller is told."""

    def __init__(self, code: ErrorCode, message: str) -> None:
        super().__init__(message)
        self.code = code


class InternalError(RequestError):
    """The service met an error that nobody foresaw; the message is fixed, and tells nothing."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INTERNAL, "The service met an unexpected error")


class ScopeMissingError(RequestError):
    """The token is good, but not for this; `scope` is what it lacks (RFC 6750 §3.1)."""

    def __init__(self, scope: str) -> None:
        super().__init__(ErrorCode.SCOPE_MISSING, f"The token lacks the scope {scope}")
        self.scope = scope


class RateExceededError(RequestError):
    """The token is used too often; in `retry_after` seconds it may be again."""

    def __init__(self, rate: str, retry_after: int) -> None:
        super().__init__(ErrorCode.RATE_EXCEEDED, f"The token may be used at most {rate}")
        self.retry_after = retry_after


class IdTakenError(RequestError):
    """Another plant is stored under the id."""

    def __init__(self, id_: int) -> None:
        super().__init__(
            ErrorCode.ID_TAKEN,
            f"Another plant is stored under this id, expected a free one, got {id_} - at `$.id`",
        )


class StoreUnavailableError(RequestError):
    """The store cannot be opened, read, or written; it may be again later.

    `reason` is what the storage said. It is for operators alone, since it may name
    hosts and users.
    """

    def __init__(self, message: str, reason: str = "") -> None:
        super().__init__(ErrorCode.STORE_UNAVAILABLE, message)
        self.reason = reason

    @property
    def explanation(self) -> str:
        """The message, with the reason."""
        return f"{self.message}: {self.reason}" if self.reason else self.message


class StoreUnreachableError(StoreUnavailableError):
    """The same, and nothing was asked of the store: what it was to do is surely not done."""


class BatchRefusedError(StoreUnavailableError):
    """The same, and nothing of the batch is done, for a fault that may lie in one row of it."""
