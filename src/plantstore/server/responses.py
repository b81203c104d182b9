"""The bytes of responses. Pure: no I/O."""

from functools import lru_cache
from http import HTTPStatus
from typing import Final

# Heads of responses that are cached. Most differ only in the length of the body.
_CACHED_HEADS: Final = 256

# The fields of each response. Responses are for the owner of the token, so caches must not store
# them (RFC 9111 §5.2.2.5), unless a response has its own Cache-Control. Browsers must not guess
# a content type other than the declared one.
_NO_STORE: Final = "cache-control: no-store"
_NO_SNIFF: Final = "x-content-type-options: nosniff"

_STATUSES_WITHOUT_BODY: Final = (HTTPStatus.NO_CONTENT, HTTPStatus.NOT_MODIFIED)

# The end of a chunked body (RFC 9112 §7.1).
LAST_CHUNK: Final = b"0\r\n\r\n"


@lru_cache(_CACHED_HEADS)
def render_head(  # noqa: PLR0917 (the cache finds positions faster than names)
    status: int,
    fields: tuple[tuple[str, str], ...],
    body_bytes: int | None,
    date: str = "",
    is_chunked: bool = False,  # noqa: FBT001, FBT002
    keeps_alive: bool = True,  # noqa: FBT001, FBT002
) -> bytes:
    """Render the head of a response.

    Args:
        status: of the response.
        fields: of the response.
        body_bytes: the length of the body; None if the body has pieces.
        date: the present, as HTTP has it; empty if it is unknown.
        is_chunked: whether the pieces of the body are chunks.
        keeps_alive: whether the connection may be used for another request.

    Raises:
        RuntimeError: a field has a line end in it.

    """
    names = {name.lower(): value for name, value in fields}
    lines = [f"date: {date}"] if date else []
    if body_bytes is not None and status not in _STATUSES_WITHOUT_BODY:
        lines.append(f"content-length: {body_bytes}")
    if body_bytes == 0:  # it describes nothing (RFC 9110 §8.3)
        names.pop("content-type", None)
    lines += [f"{name}: {value}" for name, value in names.items()]
    lines.append(_NO_SNIFF)
    if "cache-control" not in names:
        lines.append(_NO_STORE)
    if is_chunked:
        lines.append("transfer-encoding: chunked")
    if not keeps_alive:
        lines.append("connection: close")
    head = "\r\n".join(lines)
    if not head.count("\r") == head.count("\n") == len(lines) - 1:
        raise RuntimeError("A field of the response has a line end in it")
    phrase = HTTPStatus(status).phrase
    return f"HTTP/1.1 {status} {phrase}\r\n{head}\r\n\r\n".encode("latin-1")


def render_chunk(piece: bytes) -> bytes:
    """Return a piece of a body as a chunk; nothing if it is empty, since that would be the end."""
    return b"%x\r\n%b\r\n" % (len(piece), piece) if piece else b""
