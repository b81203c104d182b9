"""Renders errors as responses. Only this module knows the HTTP status of an error.

Errors come from the domain, from an operation, from the server (a malformed request), or are
unexpected. All of them become Error records: `{"error": int32, "message": string}`.
"""

import asyncio
import random
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Final

import msgspec

from plantstore.api.parameters import json_response
from plantstore.errors import ErrorCode, InternalError, RequestError
from plantstore.messages import REQUEST_ID_FIELD, Request, Response, request_id
from plantstore.observe import Observer, RequestFailed, RequestRefused

STATUS: Final[Mapping[ErrorCode, HTTPStatus]] = MappingProxyType(
    {
        ErrorCode.NOT_JSON: HTTPStatus.BAD_REQUEST,
        ErrorCode.INVALID_PLANT: HTTPStatus.BAD_REQUEST,
        ErrorCode.UNSTORABLE_TEXT: HTTPStatus.BAD_REQUEST,
        ErrorCode.ID_TAKEN: HTTPStatus.BAD_REQUEST,
        ErrorCode.NO_SUCH_PLANT: HTTPStatus.NOT_FOUND,
        ErrorCode.IDS_EXHAUSTED: HTTPStatus.BAD_REQUEST,
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
        ErrorCode.NOT_ACCEPTABLE: HTTPStatus.NOT_ACCEPTABLE,
        ErrorCode.PRECONDITION_FAILED: HTTPStatus.PRECONDITION_FAILED,
        ErrorCode.FEED_OFF: HTTPStatus.NOT_FOUND,
        ErrorCode.CHANGES_GONE: HTTPStatus.GONE,
        ErrorCode.NO_SUCH_SET: HTTPStatus.NOT_FOUND,
        ErrorCode.SET_CLOSED: HTTPStatus.CONFLICT,
        ErrorCode.INTERNAL: HTTPStatus.INTERNAL_SERVER_ERROR,
        ErrorCode.OVERLOADED: HTTPStatus.SERVICE_UNAVAILABLE,
        ErrorCode.STORE_UNAVAILABLE: HTTPStatus.SERVICE_UNAVAILABLE,
        ErrorCode.TOO_MANY_CONNECTIONS: HTTPStatus.SERVICE_UNAVAILABLE,
    }
)

# Errors after which a client may try again soon, and the seconds after which (RFC 9110 §10.2.3). A
# full queue has room again within milliseconds, but not for all refused clients at once. So
# their retries are spread over some seconds, and hardly delay the clients that are served.
_RETRY_AFTER_SECONDS: Final[Mapping[ErrorCode, range]] = MappingProxyType(
    {
        ErrorCode.STORE_UNAVAILABLE: range(1, 2),
        ErrorCode.TOO_MANY_CONNECTIONS: range(1, 2),
        ErrorCode.OVERLOADED: range(1, 6),
    }
)


class Error(msgspec.Struct, frozen=True, omit_defaults=True):
    """The Error record of the interface."""

    error: int
    message: str
    lines_stored_through: int | None = None
    first_number: int | None = None


# Created only once: a stop ends many requests.
_STOPPING: Final = RequestError(
    ErrorCode.STORE_UNAVAILABLE,
    "The service is stopping; a change may or may not be made, and sending it again is safe",
)


def respond_to(error: BaseException, request: Request, observe: Observer) -> Response:
    """Return the response to a request that failed with an error, and report it to the observer."""
    match error:
        case RequestError():
            refusal = error
        case asyncio.CancelledError():  # at the end of the timeout of a shutdown
            refusal = _STOPPING
        case MemoryError():
            message = "The service has too little memory now; sending the request again is safe"
            refusal = RequestError(ErrorCode.OVERLOADED, message)
        case _:
            refusal = InternalError()
    status = STATUS[refusal.code].value
    fields = {**refusal.headers}
    if seconds := _RETRY_AFTER_SECONDS.get(refusal.code):
        fields["Retry-After"] = str(random.choice(seconds))  # noqa: S311 (no secret)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        fields[REQUEST_ID_FIELD] = request_id(request.fields)
    if refusal.code is ErrorCode.INTERNAL and error is not refusal:
        id_ = fields[REQUEST_ID_FIELD]
        observe(RequestFailed(error, request.method, request.raw_path, id_))
    observe(RequestRefused(refusal.code, request.client))
    record = Error(
        refusal.code, refusal.message, refusal.lines_stored_through, refusal.first_number
    )
    return json_response(msgspec.json.encode(record), fields, status)
