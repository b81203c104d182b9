"""What all connections of a process may hold of its memory together."""

from collections.abc import Collection
from typing import Protocol


class Reader(Protocol):
    """A connection whose client has not taken an answer yet."""

    def unsent_bytes(self) -> int:
        """Return how many bytes of answers it holds."""
        ...

    def abort(self) -> None:
        """Close the connection and drop what it holds."""
        ...


class Budget:
    """Bounds for the bytes of requests that arrive, and of answers that are not taken.

    It belongs to one event loop. Each connection adds to `incoming_bytes` what it holds of
    requests without an answer, and subtracts it again.

    Args:
        incoming_bytes_max: bytes of requests without an answer, over all connections. While
            they are exceeded, a connection may hold its equal share and no more, so that
            small requests are served beside large ones. In all it is twice the bound at most.
        unsent_bytes_max: bytes of answers that are not taken. While they are exceeded, the
            connection that has waited for the longest time is closed.
        unsent_answers_max: connections with such answers, likewise.

    """

    def __init__(
        self, *, incoming_bytes_max: int, unsent_bytes_max: int, unsent_answers_max: int
    ) -> None:
        self.incoming_bytes_max = incoming_bytes_max
        self._unsent_bytes_max = unsent_bytes_max
        self._unsent_answers_max = unsent_answers_max
        self.incoming_bytes = 0
        # In the order in which they began to wait.
        self._readers: dict[Reader, None] = {}

    def allows(self, held_bytes: int, connections: Collection[object]) -> bool:
        """Tell whether one of these connections may hold so much while the bound is exceeded."""
        return held_bytes * len(connections) <= self.incoming_bytes_max

    def begin_unsent(self, reader: Reader) -> None:
        """Add a connection whose client has to take its answer; close the slowest if need be."""
        self._readers[reader] = None
        excess = sum(each.unsent_bytes() for each in self._readers) - self._unsent_bytes_max
        while len(self._readers) > self._unsent_answers_max or (
            excess > 0 and len(self._readers) > 1
        ):
            slowest = next(iter(self._readers))
            del self._readers[slowest]
            excess -= slowest.unsent_bytes()
            slowest.abort()

    def end_unsent(self, reader: Reader) -> None:
        """Remove a connection whose client took its answer, or is gone."""
        self._readers.pop(reader, None)
