"""The interface between the server and its application, besides ASGI.

When the server starts, the application puts a `ConnectionConfig` into the `state` of ASGI's
lifespan protocol, and the server passes it to each connection. So the server can respond with the
application's Error records without importing the application.
"""

from asyncio import AbstractEventLoop, WriteTransport
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias

from plantstore.errors import RequestError
from plantstore.observe import Observer

MIB: Final = 1024 * 1024

# Bytes of unanswered requests. A request has at most 64 KiB besides its head, and a piece of a file
# as much, so this is enough for hundreds of the largest ones, and for all usual ones.
INCOMING_BYTES_MAX: Final = 32 * MIB

# Connections with a response that the client has not read. A page has at most 128 KiB of text, and
# so a response less than 800 KiB.
UNSENT_ANSWERS_MAX: Final = 256


class Budget:
    """Limits the memory for unanswered requests and for unread responses.

    It belongs to one event loop. Each connection adds the bytes of its unanswered requests
    to `incoming_bytes`, and subtracts them when they are answered.

    Args:
        incoming_bytes_max: bytes of unanswered requests, over all connections. While it is
            exceeded, each connection may hold at most an equal share, so that small requests
            are still served beside large ones. The total is at most twice this limit.
        unsent_answers_max: number of connections with unread responses. If it is exceeded, the
            connection that has waited for the longest time is closed.

    """

    def __init__(
        self,
        *,
        incoming_bytes_max: int = INCOMING_BYTES_MAX,
        unsent_answers_max: int = UNSENT_ANSWERS_MAX,
    ) -> None:
        self.incoming_bytes_max = incoming_bytes_max
        self._unsent_answers_max = unsent_answers_max
        self.incoming_bytes = 0
        # The connection that has waited for the longest time is the first.
        self._unread: dict[WriteTransport, None] = {}

    def allows(self, held_bytes: int, connections: Collection[object]) -> bool:
        """Return whether one of the connections may hold so many bytes above the limit."""
        return held_bytes * len(connections) <= self.incoming_bytes_max

    def begin_unsent(self, transport: WriteTransport) -> None:
        """Add a connection with an unread response; close the slowest if there are too many."""
        self._unread[transport] = None
        if len(self._unread) > self._unsent_answers_max:
            slowest = next(iter(self._unread))
            del self._unread[slowest]
            slowest.abort()

    def end_unsent(self, transport: WriteTransport) -> None:
        """Remove a connection whose response was read, or which was closed."""
        self._unread.pop(transport, None)


class Turn:
    """Calls functions together, at the end of a turn of the event loop.

    Connections write their responses so. A client that is woken for each response would send its
    next request alone, and a turn would carry fewer requests.
    """

    def __init__(self) -> None:
        self._calls: list[Callable[[], None]] = []

    def at_end(self, loop: AbstractEventLoop, call: Callable[[], None]) -> None:
        """Call a function at the end of the turn."""
        if not self._calls:
            loop.call_soon(self._end)
        self._calls.append(call)

    def _end(self) -> None:
        calls, self._calls = self._calls, []
        for call in calls:
            call()


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
ANSWERED: Final = "plantstore.answered"

# The key of the body, as bytes, in the scope of a request that arrived completely before the
# application started. `receive` returns it too.
BODY: Final = "plantstore.body"

# The key of the `ExchangeControl` in the scope of a request.
EXCHANGE: Final = "plantstore.exchange"


class ExchangeControl(Protocol):
    """What an application can do with a request besides ASGI.

    Attributes:
        is_streamed: set by the application if it reads the body as a stream. Then the body may
            have any length and take any time, and only what is held of it counts against the
            bounds. The application has to refuse a client that is too slow. If the rest of the
            body is not valid, `receive` raises the error, and the application responds with it,
            since it knows what is done already.

    """

    is_streamed: bool

    def is_client_gone(self) -> bool:
        """Return whether the client has closed its side of the connection.

        It is noticed also while data waits that the application has not read.
        """


class ErrorAnswer(NamedTuple):
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
RenderError: TypeAlias = Callable[[RequestError, Fields], ErrorAnswer]


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
        turn: writes the responses.

    """

    request_seconds: float
    idle_seconds: float
    connections_max: int
    budget: Budget
    render_error: RenderError
    observe: Observer
    turn: Turn = field(default_factory=Turn)
