"""Memory limits for all connections of a process together."""

from asyncio import WriteTransport
from collections.abc import Collection
from typing import Final

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
