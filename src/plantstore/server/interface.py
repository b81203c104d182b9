"""What the server and its application know of each other, besides ASGI.

The application leaves a `Handover` in the state that a server carries from its start to each
connection (the `state` of ASGI's lifespan protocol). So the server gives the application's
Error records, and imports nothing of it.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from plantstore.errors import RequestError
from plantstore.observe import Observer
from plantstore.server.budget import Budget

# Names and values of header fields, as ASGI has them.
Fields: TypeAlias = Sequence[tuple[bytes, bytes]]

# The key of the `Handover` in the state.
HANDOVER: Final = "plantstore.handover"

# The key of the status in the scope of a request, as a plain int. Whoever answers a request
# first sets it, and nobody sets it again.
ANSWERED: Final = "plantstore.answered"


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits for connections.

    Args:
        request_seconds: in which a request must arrive whole, a new connection must begin
            its first one, and a client must take some of an answer.
        idle_seconds: for which a connection may be idle between two requests.
        head_bytes_max: of the request line and the header fields, as they arrive.
        connections_max: that are open at a time.
        budget: bounds what all of them hold together.

    """

    request_seconds: float
    idle_seconds: float
    head_bytes_max: int
    connections_max: int
    budget: Budget


class ErrorAnswer(NamedTuple):
    """The answer to a request that failed: all header fields that depend on the error."""

    status: int
    headers: dict[str, str]
    body: bytes

    def fields(self) -> list[tuple[bytes, bytes]]:
        """Return the header fields as ASGI has them, with the length of the body."""
        fields = [(name.lower().encode(), value.encode()) for name, value in self.headers.items()]
        fields.append((b"content-length", b"%d" % len(self.body)))
        return fields


# Renders the answer to an error, for a request with these header fields.
RenderError: TypeAlias = Callable[[RequestError, Fields], ErrorAnswer]


@dataclass(frozen=True, slots=True)
class Handover:
    """What the application gives the server.

    Args:
        bounds: limits for connections.
        render_error: renders what is answered where no request reaches the application.
        observe: is told what is refused.

    """

    bounds: Bounds
    render_error: RenderError
    observe: Observer
