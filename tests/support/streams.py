"""Bodies with many plants, and the requests that send them to the service."""

import contextlib
import http.client
import json
import socket
import struct
import threading
from collections.abc import Iterable, Iterator
from typing import Any, Final

from plantstore.formats import FORMATS
from plantstore.plants import NewPlant
from support.service import Answer, Client, Service
from support.wire import Wire, head

NDJSON: Final = "application/x-ndjson"
CSV: Final = "text/csv"

# The media type of each format.
MEDIA_TYPES: Final = {"ndjson": NDJSON, "csv": CSV}

# The counts of an import without rows.
NONE: Final = {"stored": 0, "already_stored": 0, "replaced": 0, "skipped": 0, "refused": 0}


def line(id_: int, name: str = "a", **more: str) -> bytes:
    """Return a plant as a line of JSON."""
    return json.dumps({"id": id_, "name": name, **more}).encode() + b"\n"


def lines(first: int, last: int, size: int = 1) -> bytes:
    """Return plants with these ids, and with names of this size, as lines of JSON."""
    return b"".join(line(id_, "a" * size) for id_ in range(first, last + 1))


def rendered(form: str, plants: list[NewPlant]) -> bytes:
    """Return plants as a file."""
    return FORMATS[form].head + FORMATS[form].render(plants)


def path_of(media_type: str) -> str:
    """Return the path of a file."""
    return "/plants.csv" if media_type == CSV else "/plants.ndjson"


def send(client: Client, body: Any, media_type: str) -> Answer:
    """Import a body: bytes, or an iterable of them, which is sent in chunks."""
    return client.send("POST", path_of(media_type), body, {"Content-Type": media_type})


def import_once(service: Service, token: str, body: Any, media_type: str = NDJSON) -> Answer:
    """Import a body on a new connection."""
    with service.client(token) as client:
        return send(client, body, media_type)


def streaming_head(token: str) -> bytes:
    """Return the head of an import whose body is sent in chunks."""
    return head(token, b"Transfer-Encoding: chunked", path="/plants.ndjson", media_type=NDJSON)


def reset(wire: Wire) -> None:
    """Reset a connection, as the kernel does for a client that is killed."""
    wire.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    wire.close()


class Stream:
    """An import that another thread sends. Its last piece is sent only after `finish`.

    Attributes:
        answer: the response; None if the connection broke before it.

    """

    def __init__(
        self, service: Service, token: str, pieces: Iterable[bytes], media_type: str
    ) -> None:
        self.answer: Answer | None = None
        self._pieces = pieces
        self._may_finish = threading.Event()
        arguments = (service.client(token), media_type)
        self._thread = threading.Thread(target=self._run, args=arguments)
        self._thread.start()

    def finish(self) -> None:
        """Let the thread send the last piece."""
        self._may_finish.set()

    def join(self) -> Answer | None:
        """Wait until the import has ended; return its answer."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.answer

    def _run(self, client: Client, media_type: str) -> None:
        # The connection breaks if the service is killed.
        with (
            contextlib.closing(client),
            contextlib.suppress(OSError, http.client.HTTPException),
        ):
            self.answer = send(client, self._held_back(), media_type)

    def _held_back(self) -> Iterator[bytes]:
        pieces = iter(self._pieces)
        held = next(pieces)
        for piece in pieces:
            yield held
            held = piece
        assert self._may_finish.wait(60)
        yield held
