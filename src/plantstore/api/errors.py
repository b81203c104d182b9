"""From errors to answers: the one table, and the one shape that every failure has.

What the domain raises, what the framework raises (404, 405, ...), and what
nobody foresaw all leave here as an Error record: `{"error": int32, "message": string}`.
"""

import random
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import msgspec
from falcon import MEDIA_JSON, HTTPError
from falcon.asgi import App, Request, Response

from plantstore.errors import ErrorCode, RateExceededError, RequestError, ScopeMissingError
from plantstore.observe import Observer, RequestFailed, RequestRefused
from plantstore.tracing import REQUEST_ID_FIELD, request_id

STATUS: Final[Mapping[ErrorCode, HTTPStatus]] = MappingProxyType(
    {
        ErrorCode.NOT_JSON: HTTPStatus.BAD_REQUEST,
        ErrorCode.INVALID_PLANT: HTTPStatus.BAD_REQUEST,
        ErrorCode.UNSTORABLE_TEXT: HTTPStatus.BAD_REQUEST,
        ErrorCode.ID_TAKEN: HTTPStatus.BAD_REQUEST,
        ErrorCode.NO_SUCH_PLANT: HTTPStatus.NOT_FOUND,
        ErrorCode.TOKEN_MISSING: HTTPStatus.UNAUTHORIZED,
        ErrorCode.TOKEN_INVALID: HTTPStatus.UNAUTHORIZED,
        ErrorCode.SCOPE_MISSING: HTTPStatus.FORBIDDEN,
        ErrorCode.RATE_EXCEEDED: HTTPStatus.TOO_MANY_REQUESTS,
        ErrorCode.BAD_REQUEST: HTTPStatus.BAD_REQUEST,
        ErrorCode.NOT_FOUND: HTTPStatus.NOT_FOUND,
        ErrorCode.METHOD_NOT_ALLOWED: HTTPStatus.METHOD_NOT_ALLOWED,
        ErrorCode.BODY_TOO_LARGE: HTTPStatus.REQUEST_ENTITY_TOO_LARGE,
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: HTTPStatus.UNSUPPORTED_MEDIA_TYPE,
        ErrorCode.INVALID_PARAMETER: HTTPStatus.BAD_REQUEST,
        ErrorCode.REQUEST_TIMEOUT: HTTPStatus.REQUEST_TIMEOUT,
        ErrorCode.HEAD_TOO_LARGE: HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE,
        ErrorCode.NOT_IMPLEMENTED: HTTPStatus.NOT_IMPLEMENTED,
        ErrorCode.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
        ErrorCode.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
        ErrorCode.STORE_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
        ErrorCode.TOO_MANY_CONNECTIONS: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)

# Whole seconds are the header's unit (RFC 9110 §10.2.3).
RETRY_AFTER_SECONDS: Final = 1

# A full queue has room again in milliseconds, but not for all whom it refuses at once. So
# they are spread, and those who wait for their answers wait little longer for those who do not.
RETRY_AFTER_OVERLOAD_SECONDS: Final = range(1, 6)

# Where the scope of a request has the status of its answer, as a plain int, unless it is 200.
ANSWERED: Final = "plantstore.answered"

_CHALLENGE: Final = 'Bearer realm="plantstore"'

_HEADERS: Final[Mapping[ErrorCode, Mapping[str, str]]] = MappingProxyType(
    {
        # RFC 6750 §3.1: no error attribute for one who did not know that a token is needed.
        ErrorCode.TOKEN_MISSING: {"WWW-Authenticate": _CHALLENGE},
        ErrorCode.TOKEN_INVALID: {"WWW-Authenticate": f'{_CHALLENGE}, error="invalid_token"'},
        ErrorCode.STORE_UNAVAILABLE: {"Retry-After": str(RETRY_AFTER_SECONDS)},
        # RFC 9110 §15.5.16: tell what would have been taken.
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: {"Accept": MEDIA_JSON, "Accept-Encoding": "identity"},
    }
)


class Error(msgspec.Struct, frozen=True):
    """The Error record of the interface."""

    error: int
    message: str


def render_error(code: ErrorCode, message: str) -> bytes:
    """Write an Error record as JSON text, in UTF-8."""
    return msgspec.json.encode(Error(code, message))


def retry_after_overload() -> int:
    """Return after how many seconds one who was refused for overload may come again."""
    return random.choice(RETRY_AFTER_OVERLOAD_SECONDS)  # noqa: S311 (no secret)


def handle_errors(app: App[Request, Response], observe: Observer) -> None:
    """Make an application answer every failure with an Error record."""

    def answer(req: Request, resp: Response, code: ErrorCode, status: int, message: str) -> None:
        if ANSWERED not in req.scope:  # or the client was told, or is gone
            observe(RequestRefused(code))
            req.scope[ANSWERED] = status
        resp.status = status
        resp.data = render_error(code, message)
        resp.content_type = MEDIA_JSON

    async def on_foreseen(
        req: Request, resp: Response, error: RequestError, _params: dict[str, Any]
    ) -> None:
        # Answered here: raised as an HTTPError, it would cost twice as much, and a service
        # that has too much to do has many to answer.
        status = STATUS[error.code].value
        resp.set_headers(_headers(error))
        if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
            resp.set_header(REQUEST_ID_FIELD, request_id(req.scope["headers"]))
        answer(req, resp, error.code, status, error.message)

    async def on_unforeseen(
        req: Request, resp: Response, error: Exception, _params: dict[str, Any]
    ) -> None:
        id_ = request_id(req.scope["headers"])
        observe(RequestFailed(error, req.method, req.scope["raw_path"].decode(), id_))
        resp.set_header(REQUEST_ID_FIELD, id_)
        status = STATUS[ErrorCode.INTERNAL].value
        message = "The service met an unexpected error"
        answer(req, resp, ErrorCode.INTERNAL, status, message)

    async def on_no_memory(
        req: Request, resp: Response, _error: MemoryError, params: dict[str, Any]
    ) -> None:
        message = "The service has too little memory now; sending the request again is safe"
        await on_foreseen(req, resp, RequestError(ErrorCode.OVERLOADED, message), params)

    def serialize(req: Request, resp: Response, error: HTTPError) -> None:
        code, message = _of_framework(req, error)
        ours = RequestError(code, message or HTTPStatus(error.status_code).phrase)
        answer(req, resp, code, error.status_code, ours.message)

    app.add_error_handler(Exception, on_unforeseen)
    app.add_error_handler(RequestError, on_foreseen)
    app.add_error_handler(MemoryError, on_no_memory)
    app.set_error_serializer(serialize)


def _of_framework(req: Request, error: HTTPError) -> tuple[ErrorCode, str | None]:
    """Return the number and the message of an error that Falcon raised by itself."""
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return ErrorCode.NOT_FOUND, "There is nothing at this path"
        case HTTPStatus.METHOD_NOT_ALLOWED:
            return ErrorCode.METHOD_NOT_ALLOWED, f"The method {req.method} is not allowed here"
        case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return ErrorCode.BAD_REQUEST, error.description
        case _:
            return ErrorCode.INTERNAL, error.description


def _headers(error: RequestError) -> dict[str, str]:
    match error:
        case ScopeMissingError(scope=scope):
            challenge = f'{_CHALLENGE}, error="insufficient_scope", scope="{scope}"'
            return {"WWW-Authenticate": challenge}
        case RateExceededError(retry_after=seconds):
            return {"Retry-After": str(seconds)}
        case RequestError(code=ErrorCode.OVERLOADED):
            return {"Retry-After": str(retry_after_overload())}
        case _:
            return dict(_HEADERS.get(error.code, {}))
