"""The interface between the server and its application, besides ASGI.

When the server starts, the application puts a `ConnectionConfig` into the `state` of ASGI's
lifespan protocol, and the server passes it to each connection. So the server can respond with the
application's Error records without importing the application.
"""

import logging
from asyncio import AbstractEventLoop
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from plantstore.errors import RequestError
from plantstore.observe import Observer

MIB: Final = 1024 * 1024

# Bytes of unanswered requests. A request has at most 16 KiB besides its head, and a piece of a file
# as much, so this is enough for hundreds of the largest ones, and for all usual ones.
INCOMING_BYTES_MAX: Final = 32 * MIB

# Bytes of responses that clients have not read. A page of plants, and a piece of a file or of a
# stream, have less than 800 KiB, so this is enough for eighty slow readers of the largest ones.
UNREAD_BYTES_MAX: Final = 64 * MIB


class Waiting(Protocol):
    """A connection that waits for its client. `held_bytes` are those of unanswered requests."""

    held_bytes: int

    def drop(self) -> None:
        """Close the connection, and free its memory at once, if it waits for its client."""


class Budget:
    """Limits the memory for unanswered requests and for unread responses.

    It belongs to one event loop. Each connection adds the bytes of its unanswered requests
    to `incoming_bytes`, and subtracts them when they are answered. At a limit, the connections that
    wait for their clients are closed, the longest wait first: so no client can use up the memory
    that others need by sending or reading slowly.

    Args:
        incoming_bytes_max: bytes of unanswered requests, over all connections. While it is
            exceeded although no client without a token makes the service wait, each connection may
            hold at most an equal share, so that small requests are still served beside large ones.
            The total is at most twice this limit.
        unread_bytes_max: bytes of unread responses, over all connections. Clients without a valid
            token are disconnected first.

    """

    def __init__(
        self,
        *,
        incoming_bytes_max: int = INCOMING_BYTES_MAX,
        unread_bytes_max: int = UNREAD_BYTES_MAX,
    ) -> None:
        self.incoming_bytes_max = incoming_bytes_max
        self._unread_bytes_max = unread_bytes_max
        self.incoming_bytes = 0
        self._unread_bytes = 0
        # The connections with incomplete heads, and those with unread responses and their sizes: of
        # clients without a valid token, and of others. The longest wait is the first.
        self._heads: dict[Waiting, int] = {}
        self._of_strangers: dict[Waiting, int] = {}
        self._of_others: dict[Waiting, int] = {}

    def make_room(self) -> None:
        """Close connections of clients without a token, until the incoming bytes are in bounds."""
        for waiting in (self._heads, self._of_strangers):
            for connection in [each for each in waiting if each.held_bytes]:
                if self.incoming_bytes <= self.incoming_bytes_max:
                    return
                self._drop(waiting, connection)

    def is_equal_share(self, held_bytes: int, connections: Collection[object]) -> bool:
        """Return whether one of the connections holds at most its equal share of the limit."""
        return held_bytes * len(connections) <= self.incoming_bytes_max

    def begin_head(self, connection: Waiting) -> None:
        """Add a connection with an incomplete head."""
        self._heads.pop(connection, None)
        self._heads[connection] = 0

    def end_head(self, connection: Waiting) -> None:
        """Remove a connection whose head is complete, or which was closed."""
        self._heads.pop(connection, None)

    def begin_unread(self, connection: Waiting, size: int, *, has_token: bool) -> None:
        """Add a connection with an unread response; close the slowest if there is too much."""
        (self._of_others if has_token else self._of_strangers)[connection] = size
        self._unread_bytes += size
        while self._unread_bytes > self._unread_bytes_max:
            unread = self._of_strangers or self._of_others
            self._drop(unread, next(iter(unread)))

    def end_unread(self, connection: Waiting) -> None:
        """Remove a connection whose response was read, or which was closed."""
        for unread in (self._of_strangers, self._of_others):
            self._unread_bytes -= unread.pop(connection, 0)

    def _drop(self, waiting: dict[Waiting, int], connection: Waiting) -> None:
        self._unread_bytes -= waiting.pop(connection)
        connection.drop()


class Answered(Protocol):
    """A connection with a response."""

    def write_response(self) -> None:
        """Write the response."""

    def abort(self) -> None:
        """Close the connection at once."""


class IterationEnd:
    """Writes responses together, at the end of an iteration of the event loop.

    A client that is woken for each response would send its next request alone, and an iteration
    would carry fewer requests.
    """

    def __init__(self) -> None:
        self._connections: list[Answered] = []

    def add(self, loop: AbstractEventLoop, connection: Answered) -> None:
        """Write the response of a connection at the end of the iteration."""
        if not self._connections:
            loop.call_soon(self._end)
        self._connections.append(connection)

    def _end(self) -> None:
        connections, self._connections = self._connections, []
        for connection in connections:
            try:
                connection.write_response()
            except Exception:  # such as MemoryError; the others have responses, too
                logging.getLogger(__name__).exception("A response could not be written")
                connection.abort()


# What ASGI 3 has (https://asgi.readthedocs.io).
Scope: TypeAlias = dict[str, Any]
Event: TypeAlias = Mapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Event]]
Send: TypeAlias = Callable[[Event], Awaitable[None]]
ASGIApp: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]

# Names and values of header fields, as ASGI has them.
Fields: TypeAlias = Sequence[tuple[bytes, bytes]]

# The key of the `ConnectionConfig` in the state.
CONNECTION_CONFIG: Final = "plantstore.connection_config"

# The key of the status in the scope of a request, as a plain int. It is set when the response
# begins. It changes only if another response replaces one of which nothing is written.
RESPONSE_STATUS: Final = "plantstore.status"

# The key of the body, as bytes, in the scope of a request that arrived completely before the
# application started. `receive` returns it too.
BODY: Final = "plantstore.body"

# The key of the `ExchangeControl` in the scope of a request.
EXCHANGE: Final = "plantstore.exchange"


class ExchangeControl(Protocol):
    """What an application can do with a request besides ASGI.

    Attributes:
        has_token: set by the application if the token of the request is valid. When memory is
            short, clients without one are disconnected first.

    """

    has_token: bool

    def stream_body(self) -> None:
        """Note that the application reads the body as a stream.

        Then the body may have any length and take any time, and only what is held of it counts
        against the bounds. The application has to refuse a client that is too slow. If the rest of
        the body is not valid, `receive` raises the error, and the application responds with it,
        since it knows what is done already.
        """

    def is_client_gone(self) -> bool:
        """Return whether the client has closed its side of the connection.

        It is noticed also while data waits that the application has not read.
        """


class ErrorResponse(NamedTuple):
    """The response to a failed request, with all header fields that depend on the error."""

    status: int
    headers: dict[str, str]
    body: bytes

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return the header fields as ASGI has them, with the length of the body."""
        fields = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        fields.append((b"content-length", b"%d" % len(self.body)))
        return fields


# Renders the response for an error, for a request with these header fields.
RenderError: TypeAlias = Callable[[RequestError, Fields], ErrorResponse]


@dataclass(frozen=True, slots=True)
class ConnectionConfig:
    """What the application gives the server: limits for connections, and functions.

    Args:
        request_seconds: the time in which a request must arrive completely, a new connection
            must begin its first request, and a client must read some of its response.
        idle_seconds: how long a connection may be idle between two requests.
        connections_max: the number of open connections.
        budget: limits the memory of all connections together.
        render_error: renders the response to a request that does not reach the application.
        observe: is called for each refused request.
        iteration_end: writes the responses.

    """

    request_seconds: float
    idle_seconds: float
    connections_max: int
    budget: Budget
    render_error: RenderError
    observe: Observer
    iteration_end: IterationEnd = field(default_factory=IterationEnd)
