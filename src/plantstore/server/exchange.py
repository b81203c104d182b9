"""A request and its response, and the body of a request that has not arrived with its head."""

import asyncio
from typing import TYPE_CHECKING, Final, Self

import msgspec

from plantstore.errors import ClientGoneError, RequestError
from plantstore.messages import Request
from plantstore.server import states
from plantstore.server.states import RequestEvent, ResponseEvent, State

if TYPE_CHECKING:
    from plantstore.server.connection import Connection

# The status if the client disconnected before the response. It is a convention of servers.
CLIENT_GONE: Final = 499


# The request until its head has arrived. All connections share it, so no attribute is ever set.
NO_REQUEST: Final = Request("", "")


class Exchange(msgspec.Struct, eq=False):
    """A request and its response, and how far both are.

    Attributes:
        state: how far they are. Only `enter` changes it.
        request: what the application gets. NO_REQUEST until its head has arrived.
        arriving: the body, if it has not arrived with the head.
        keeps_alive: whether the connection may be used for another request.
        task: runs the application; None before its start.
        status: of the response.

    """

    state: State
    request: Request
    arriving: "Body | None" = None
    keeps_alive: bool = True
    task: asyncio.Task[None] | None = None
    status: int = CLIENT_GONE

    def enter(self, event: RequestEvent | ResponseEvent) -> None:
        """Enter the state behind an event.

        Raises:
            KeyError: this cannot happen in the current state.

        """
        self.state = self.state.after[event]

    def fail_body(self, error: RequestError) -> None:
        """Take nothing more of the body, and no further request."""
        self.keeps_alive = False
        if self.arriving is not None:
            self.arriving.fail(error)


class Body:
    """The pieces of a body, as `plantstore.messages.ArrivingBody` promises them.

    Attributes:
        held: what has arrived, and the operation has not received.
        awaits_continue: whether the client waits for a 100 before it sends the body.

    """

    def __init__(
        self, connection: "Connection", exchange: Exchange, *, awaits_continue: bool
    ) -> None:
        self._connection = connection
        self._exchange = exchange
        self.held = b""
        self.awaits_continue = awaits_continue
        self._failure: RequestError | None = None
        self._waiter: asyncio.Future[None] | None = None

    # The connection calls these methods, each after the event of the request.

    def add(self, piece: bytes) -> None:
        """Take a piece."""
        self.awaits_continue = False
        if not self._exchange.state.is_over:  # otherwise nobody reads it
            self.held = self.held + piece if self.held else piece
            self.wake()

    def end(self) -> None:
        """Note that the whole body has arrived."""
        self.awaits_continue = False
        self.wake()

    def fail(self, error: RequestError) -> None:
        """Raise an error in the operation instead of what it has not received.

        Without this, data that arrives later could be joined to what arrived before a gap.
        """
        self._failure = error
        self.held = b""
        self.wake()

    def wake(self) -> None:
        """Let the operation look again at what has arrived."""
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    # The operation calls these methods.

    def as_stream(self) -> Self:
        """Let the body have any length and take any time."""
        self._exchange.enter(states.STREAM_BODY)
        return self

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        """Return what has arrived since the last call, at least one byte.

        Raises:
            ClientGoneError: the client disconnected before the end of the body, or has got a
                response.
            RequestError: a streamed body is not valid, or too large.

        """
        exchange = self._exchange
        if not exchange.state.is_over:
            self._connection.hold_body(len(self.held))
        while not self.held:
            if exchange.state.request is states.WHOLE:
                raise StopAsyncIteration
            if exchange.state.is_over:
                raise ClientGoneError
            if self._failure is not None:
                # The traceback has a frame, which refers to this object.
                raise self._failure.again()
            if self.awaits_continue:
                self.awaits_continue = False
                self._connection.permit_body()
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        piece, self.held = self.held, b""
        if not exchange.state.is_over:
            self._connection.hold_body(len(piece))  # until the operation asks for more
        return piece
