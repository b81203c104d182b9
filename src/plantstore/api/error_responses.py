"""Renders errors as responses. Only this module knows the HTTP status of an error.

Errors come from the domain, from the framework (404, 405, ...), from the server (a malformed
request), or are unexpected. All of them become Error records:
`{"error": int32, "message": string}`.
"""

import random
from collections.abc import Mapping
from http import HTTPStatus
from types import MappingProxyType
from typing import Any, Final

import msgspec
from falcon import MEDIA_JSON, HTTPError
from falcon.asgi import App, Request, Response

from plantstore.errors import ClientGoneError, ErrorCode, InternalError, RequestError
from plantstore.observe import REQUEST_ID_FIELD, Observer, RequestFailed, RequestRefused, request_id
from plantstore.server.interface import RESPONSE_STATUS, ErrorResponse, Fields

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


def render_error(error: RequestError, request_fields: Fields) -> ErrorResponse:
    """Return the response for an error, for a request with these header fields.

    All error responses of the service are rendered here.
    """
    status = STATUS[error.code].value
    headers = {"Content-Type": MEDIA_JSON, **error.headers}
    if seconds := _RETRY_AFTER_SECONDS.get(error.code):
        headers["Retry-After"] = str(random.choice(seconds))  # noqa: S311 (no secret)
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        headers[REQUEST_ID_FIELD] = request_id(request_fields)
    record = Error(error.code, error.message, error.lines_stored_through, error.first_number)
    return ErrorResponse(status, headers, msgspec.json.encode(record))


def handle_errors(app: App[Request, Response], observe: Observer) -> None:
    """Make an application respond to every error with an Error record."""

    def respond(req: Request, resp: Response, error: RequestError) -> ErrorResponse:
        if RESPONSE_STATUS not in req.scope:  # the server has sent no response itself
            observe(RequestRefused(error.code, req.scope.get("client")))
        rendered = render_error(error, req.scope["headers"])
        resp.status = rendered.status
        resp.set_headers(rendered.headers)
        resp.data = rendered.body
        return rendered

    async def on_error(
        req: Request, resp: Response, error: Exception, _params: dict[str, Any]
    ) -> None:
        match error:
            case ClientGoneError():
                pass  # nobody gets a response
            case RequestError():
                # Answer here: raising an HTTPError would take twice as long, and an overloaded
                # service sends many errors.
                respond(req, resp, error)
            case MemoryError():
                message = "The service has too little memory now; sending the request again is safe"
                respond(req, resp, RequestError(ErrorCode.OVERLOADED, message))
            case _:
                id_ = respond(req, resp, InternalError()).headers[REQUEST_ID_FIELD]
                observe(RequestFailed(error, req.method, req.scope["raw_path"].decode(), id_))

    def serialize(req: Request, resp: Response, error: HTTPError) -> None:
        respond(req, resp, _of_framework(req, error))

    app.add_error_handler(Exception, on_error)
    app.set_error_serializer(serialize)


def _of_framework(req: Request, error: HTTPError) -> RequestError:
    """Convert an error that Falcon raised itself."""
    match error.status_code:
        case HTTPStatus.NOT_FOUND:
            return RequestError(ErrorCode.NOT_FOUND, "There is nothing at this path")
        case HTTPStatus.METHOD_NOT_ALLOWED:
            message = f"The method {req.method} is not allowed here"
            return RequestError(ErrorCode.METHOD_NOT_ALLOWED, message)
        case status if status < HTTPStatus.INTERNAL_SERVER_ERROR:
            phrase = HTTPStatus(status).phrase
            return RequestError(ErrorCode.BAD_REQUEST, error.description or phrase)
        case _:
            return InternalError()
