"""Limits the memory of all connections together."""

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from plantstore.server.connection import Connection

MIB: Final = 1024 * 1024

# Bytes of unanswered requests. A request has at most 16 KiB besides its head, and a piece of a file
# as much, so this is enough for hundreds of the largest ones, and for all usual ones.
INCOMING_BYTES_MAX: Final = 32 * MIB

# Bytes of responses that are held because clients have not read them. A page of plants, and a part
# of an export or of a stream, have less than 800 KiB, so this is enough for eighty slow readers of
# the largest ones. For a reader of a static file, a piece of it is held.
UNREAD_BYTES_MAX: Final = 64 * MIB


class Budget:
    """Limits the memory for unanswered requests and for unread responses.

    It belongs to one event loop. Each connection adds the bytes of its unanswered requests
    to `incoming_bytes`, and subtracts them when they are answered. At a limit, the connections that
    wait for their clients are closed, the longest wait first: so no client can use up the memory
    that others need by sending or reading slowly.

    Args:
        incoming_bytes_max: bytes of unanswered requests, over all connections. Above it,
            connections without a token are closed. If that is not enough, each connection may still
            hold its share, this limit divided by the maximum number of connections: so small
            requests are served beside large ones, and the total is at most twice this limit.
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
        self.unread_bytes_max = unread_bytes_max
        self.incoming_bytes = 0
        self.unread_bytes = 0
        # The connections with incomplete heads, and those with unread responses and their sizes: of
        # clients without a valid token, and of others. The longest wait is the first. The size of
        # an incomplete head is 0 here, since its bytes are incoming.
        self._heads: dict[Connection, int] = {}
        self._without_token: dict[Connection, int] = {}
        self._with_token: dict[Connection, int] = {}

    def make_room(self) -> None:
        """Close connections of clients without a token, until the incoming bytes are in bounds."""
        for waiting in (self._heads, self._without_token):
            for connection in [each for each in waiting if each.held_bytes]:
                if self.incoming_bytes <= self.incoming_bytes_max:
                    return
                self._drop(waiting, connection)

    def begin_head(self, connection: "Connection") -> None:
        """Add a connection with an incomplete head."""
        self._heads.pop(connection, None)
        self._heads[connection] = 0

    def end_head(self, connection: "Connection") -> None:
        """Remove a connection whose head is complete, or which was closed."""
        self._heads.pop(connection, None)

    def begin_unread(self, connection: "Connection", size: int, *, has_token: bool) -> None:
        """Add bytes that are held for a client; close the slowest if there are too many."""
        unread = self._with_token if has_token else self._without_token
        unread[connection] = unread.get(connection, 0) + size
        self.unread_bytes += size
        while self.unread_bytes > self.unread_bytes_max:
            unread = self._without_token or self._with_token
            self._drop(unread, next(iter(unread)))

    def end_unread(self, connection: "Connection") -> None:
        """Remove a connection whose response was read, or which was closed."""
        for unread in (self._without_token, self._with_token):
            self.unread_bytes -= unread.pop(connection, 0)

    def _drop(self, waiting: "dict[Connection, int]", connection: "Connection") -> None:
        self.unread_bytes -= waiting.pop(connection)
        connection.drop()
