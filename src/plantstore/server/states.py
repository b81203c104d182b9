"""How far a request is, and its response. Pure: no I/O, no clock.

Theory of operation
-------------------
A `State` is a pair: that of a request and that of its response. `REQUEST_TRANSITIONS`
and `RESPONSE_TRANSITIONS` have all events; an event that has no transition from the current state
raises an error. What the connection does in a state follows from the pair, here and nowhere else:

    request    who responds to an error             what is due for the client
    CONNECTED  the connection                       CLOSE after request_seconds
    IDLE       the connection                       CLOSE after idle_seconds
    HEAD       the connection                       REFUSE after request_seconds
    BODY       the connection, while the response   REFUSE after request_seconds
               is AWAITED; then the application
    STREAM     the application                      nothing: the application limits its time
    WHOLE      nobody: the response is sent         nothing: the service has to respond
    FAILED     nobody: the response is sent         nothing: the service has to respond

If the response is WRITTEN, the rest of the request is discarded: an error closes the connection,
and CLOSE is due after request_seconds. If it is CLOSED, nothing more happens.
"""

from enum import StrEnum
from itertools import product
from typing import Final, NamedTuple


class RequestState(StrEnum):
    """How far a request is."""

    CONNECTED = "connected"  # no request has begun on this connection
    IDLE = "idle"  # the previous request is answered, and no byte of the next one has arrived
    HEAD = "head"  # a part of its head has arrived
    BODY = "body"  # its head has arrived
    STREAM = "stream"  # the same, and the application reads the body as a stream
    WHOLE = "whole"  # its last byte has arrived
    FAILED = "failed"  # a part of the body was not taken, so nothing behind it is


class ResponseState(StrEnum):
    """How far a response is."""

    AWAITED = "awaited"
    BEGUN = "begun"  # a part of it is written
    ENDED = "ended"  # the application has sent its end
    WRITTEN = "written"  # its end is written
    CLOSED = "closed"  # the connection is lost, or got an error of the server instead


class RequestEvent(StrEnum):
    """What happens to a request."""

    ARRIVAL = "arrival"  # its head and its body, together
    FIRST_BYTE = "first byte"  # of a head that is incomplete
    HEAD_END = "head end"
    STREAM_BODY = "stream body"  # the application reads the body as a stream
    LAST_BYTE = "last byte"
    FAIL_BODY = "fail body"


class ResponseEvent(StrEnum):
    """What happens to a response."""

    PIECE = "piece"  # the application sends a part that is not the last one
    LAST_PIECE = "last piece"
    WRITE = "write"
    CLOSE = "close"


class Due(StrEnum):
    """The action that is due on a connection."""

    NOTHING = "nothing"
    REFUSE = "refuse"  # respond that the request did not arrive in time, and close
    CLOSE = "close"  # close without a response
    ABORT = "abort"  # close, and discard unread responses


class Responder(StrEnum):
    """Who responds to data that is not a valid request."""

    CONNECTION = "connection"  # with an error
    APPLICATION = "application"  # the iteration over the body raises it
    NOBODY = "nobody"  # the response of the request is sent; then the connection is closed


class Deadline(NamedTuple):
    """What is due if a client is late. It counts from the event that sets it.

    Attributes:
        due: the action.
        is_idle: whether the limit is `idle_seconds`; otherwise, it is `request_seconds`.

    """

    due: Due
    is_idle: bool = False


# The members by their own names. Before Python 3.12, an attribute of an Enum is looked up slowly.
CONNECTED, IDLE, HEAD, BODY, STREAM, WHOLE, FAILED = RequestState
AWAITED, BEGUN, ENDED, WRITTEN, CLOSED = ResponseState
ARRIVAL, FIRST_BYTE, HEAD_END, STREAM_BODY, LAST_BYTE, FAIL_BODY = RequestEvent
PIECE, LAST_PIECE, WRITE, CLOSE = ResponseEvent

REQUEST_TRANSITIONS: Final = {
    ARRIVAL: {CONNECTED: WHOLE, IDLE: WHOLE, HEAD: WHOLE},
    FIRST_BYTE: {CONNECTED: HEAD, IDLE: HEAD},
    HEAD_END: {CONNECTED: BODY, IDLE: BODY, HEAD: BODY},
    # A request that has arrived stays what it is.
    STREAM_BODY: {BODY: STREAM, STREAM: STREAM, WHOLE: WHOLE, FAILED: FAILED},
    LAST_BYTE: {BODY: WHOLE, STREAM: WHOLE},
    FAIL_BODY: {BODY: FAILED, STREAM: FAILED},
}

RESPONSE_TRANSITIONS: Final = {
    PIECE: {AWAITED: BEGUN, BEGUN: BEGUN},
    LAST_PIECE: {AWAITED: ENDED, BEGUN: ENDED},
    WRITE: {ENDED: WRITTEN},
    CLOSE: dict.fromkeys(ResponseState, CLOSED),
}

# Deadlines are compared by identity: a rest that is discarded has a new deadline.
FIRST_REQUEST: Final = Deadline(Due.CLOSE)
NEXT_REQUEST: Final = Deadline(Due.CLOSE, is_idle=True)
REQUEST: Final = Deadline(Due.REFUSE)
DISCARDED_REST: Final = Deadline(Due.CLOSE)

_DEADLINES: Final = {
    CONNECTED: FIRST_REQUEST,
    IDLE: NEXT_REQUEST,
    HEAD: REQUEST,
    BODY: REQUEST,
}

_WITHOUT_HEAD: Final = frozenset({CONNECTED, IDLE, HEAD})
_ARRIVING: Final = frozenset({HEAD, BODY, STREAM})
_COMPLETE: Final = frozenset({WHOLE, FAILED})
_BEFORE_END: Final = frozenset({AWAITED, BEGUN})
_BEHIND_END: Final = frozenset({WRITTEN, CLOSED})
_WITHOUT_APPLICATION: Final = frozenset({AWAITED, CLOSED})


class State:
    """A state of a request with its response, and what follows from it.

    All of it is computed once, for each pair, because a request looks at it some thirty times.

    Attributes:
        request: how far the request is.
        response: how far the response is.
        is_arriving: whether a request has begun to arrive, and more of it is taken.
        is_complete: whether nothing more of the connection belongs to this request: it is whole or
            failed.
        is_over: whether nothing more is taken of the application.
        is_served: whether the application has the request, and the response is not written.
        deadline: the deadline for the client; None while the service has to act.
        responder: who responds to an error.
        after: the next state, for each event that can happen.

    """

    def __init__(self, request: RequestState, response: ResponseState) -> None:
        self.request = request
        self.response = response
        self.is_arriving = request in _ARRIVING
        self.is_complete = request in _COMPLETE
        self.is_over = response not in _BEFORE_END
        self.is_served = request not in _WITHOUT_HEAD and response not in _BEHIND_END
        self.deadline = _deadline(request, response)
        self.responder = _responder(request, response)
        self.after: dict[RequestEvent | ResponseEvent, State] = {}


def _deadline(request: RequestState, response: ResponseState) -> Deadline | None:
    if response is WRITTEN:
        return DISCARDED_REST
    return None if response is CLOSED else _DEADLINES.get(request)


def _responder(request: RequestState, response: ResponseState) -> Responder:
    """Return who responds to an error.

    If the request has arrived, only its response is sent: the client would take the error for
    that response. If the response has begun, or the application reads the body as a stream, the
    application knows what it did with the beginning.
    """
    if request in _WITHOUT_HEAD:
        return Responder.CONNECTION
    if request in _COMPLETE or response is WRITTEN:
        return Responder.NOBODY
    if request is BODY and response is AWAITED:
        return Responder.CONNECTION
    return Responder.APPLICATION


def _states() -> dict[tuple[RequestState, ResponseState], State]:
    """Return the states, each with its next ones. Without a head, no application responds."""
    states = {
        (request, response): State(request, response)
        for request, response in product(RequestState, ResponseState)
        if request not in _WITHOUT_HEAD or response in _WITHOUT_APPLICATION
    }
    for (request, response), state in states.items():
        for received, to_request in REQUEST_TRANSITIONS.items():
            if request in to_request:
                state.after[received] = states[to_request[request], response]
        for sent, to_response in RESPONSE_TRANSITIONS.items():
            if response in to_response and (pair := (request, to_response[response])) in states:
                state.after[sent] = states[pair]
    return states


STATES: Final = _states()
