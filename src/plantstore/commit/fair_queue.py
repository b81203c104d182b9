"""A queue for each token, so that no client can make all others wait.

Clients without a token share one queue, and the service itself has one.
"""

import asyncio
from collections import deque

from plantstore.errors import ClientGoneError, QueueFullError
from plantstore.messages import Request


class FairQueue:
    """Limits how many requests run at a time. The others wait: those of each token in a queue.

    The queues are served one after the other, a request each. A request whose client has left is
    dropped instead of being run.

    Args:
        running_max: how many may run.
        waiting_max: how many may wait; three quarters of them may have one token.

    Attributes:
        waiting: how many wait.

    """

    def __init__(self, running_max: int, waiting_max: int) -> None:
        self._free = running_max
        self._waiting_max = waiting_max
        self._per_token_max = max(1, waiting_max * 3 // 4)
        # By token; that of the service is None. The next one to be served is the first.
        self._places: dict[str | None, deque[tuple[asyncio.Future[None], Request | None]]] = {}
        self.waiting = 0

    async def acquire(self, caller: Request | None) -> None:
        """Wait until the request of a caller may run. Call `release` when it has run.

        Args:
            caller: None for the service itself.

        Raises:
            QueueFullError: too many wait.
            ClientGoneError: the client has left.

        """
        if self._free:
            self._free -= 1
            return
        token = None if caller is None else caller.token
        places = self._places.get(token, deque())
        if self.waiting >= self._waiting_max or len(places) >= self._per_token_max:
            raise QueueFullError
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        places.append((place, caller))
        self._places[token] = places
        self.waiting += 1
        try:
            await place
        except asyncio.CancelledError:
            if not place.cancelled() and place.exception() is None:  # it may run
                self.release()
            raise

    def release(self) -> None:
        """Let the next request run."""
        while self._places:
            token = next(iter(self._places))
            places = self._places.pop(token)
            place, caller = places.popleft()
            self.waiting -= 1
            if places:
                self._places[token] = places  # behind the others
            if place.done():
                continue
            if caller is None or not caller.is_client_gone():
                place.set_result(None)
                return
            place.set_exception(ClientGoneError())
        self._free += 1
