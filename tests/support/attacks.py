"""The most expensive known requests of each kind of client."""

import itertools
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import count
from typing import Final

from plantstore.api.imports import BYTES_PER_SECOND_MIN
from plantstore.plants import NewPlant

KIB: Final = 1024
MIB: Final = 1024 * KIB

# The sizes of large heads and bodies, just below the limits of the service.
HEAD_BYTES: Final = 31 * KIB
BODY_BYTES: Final = MIB - 100

# Plants that are stored before the attacks: plants of usual size, and plants of 1 MiB whose ids
# begin at LARGE_ID.
USUAL_PLANTS: Final = 5_000
LARGE_ID: Final = 1_000_000

# The average size of the rows of a catalogue of 27,000 plants.
USUAL_ROW_BYTES: Final = 31
LARGE_PLANTS: Final = 64


@dataclass(frozen=True)
class Attack:
    """A request that is sent repeatedly.

    Attributes:
        name: its name in the table of results.
        client: the permissions of its client: `no token`, `read`, `create` or `change`.
        request: returns the bytes of one request; its argument is the Authorization field.
        times: the number of measured requests.
        piece_bytes: the size of the packets in which it is sent; None to send it at once.
        is_import: whether it is compared with a valid import, and not with a create.

    """

    name: str
    client: str
    request: Callable[[bytes], bytes]
    times: int = 200
    piece_bytes: int | None = None
    is_import: bool = False


@dataclass(frozen=True)
class Hold:
    """A request that does not end: its client sends or reads as little as it may.

    Attributes:
        name: its name in the table of results.
        client: the permissions of its client, as those of an `Attack`.
        request: returns the beginning of the request; its argument is the Authorization field.
        piece: what is sent each second after the beginning.

    """

    name: str
    client: str
    request: Callable[[bytes], bytes]
    piece: bytes = b""


def stored() -> Iterator[NewPlant]:
    """Yield the plants that are stored before the attacks."""
    for id_ in range(USUAL_PLANTS):
        yield NewPlant(id_, f"Abies balsamea (L.) Mill. {id_}", f"Genus {id_ % 50}")
    for id_ in range(LARGE_PLANTS):
        text = ("x" * MIB, "é" * (MIB // 2), "\x01" * (MIB // 6), "🌱" * (MIB // 4))[id_ % 4]
        yield NewPlant(LARGE_ID + id_, text[:-1])


def batched(plants: Iterator[NewPlant]) -> Iterator[list[NewPlant]]:
    """Yield plants in batches; a large plant ends its batch."""
    batch: list[NewPlant] = []
    for plant in plants:
        batch.append(plant)
        if len(batch) == USUAL_PLANTS or len(plant.name) > KIB:
            yield batch
            batch = []
    yield batch


def get(target: bytes, *fields: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes a GET request."""
    return lambda token: head(b"GET " + target, token, *fields)


def post(body: bytes, target: bytes = b"/plants") -> Callable[[bytes], bytes]:
    """Return a function that makes a POST request."""
    length = b"Content-Length: %d" % len(body)
    return lambda token: head(b"POST " + target, token, JSON, length) + body


def head(start: bytes, *fields: bytes) -> bytes:
    """Return the head of a request; empty fields are left out."""
    lines = [start + b" HTTP/1.1", b"Host: x", *filter(None, fields)]
    return b"\r\n".join([*lines, b"", b""])


def put_large(token: bytes) -> bytes:
    """Return a request that replaces a large plant with one of the same size."""
    body = filled(b'{"name":"', b"x", b'"}')
    target = b"PUT /plants/%d" % (LARGE_ID + LARGE_PLANTS - 1)
    return head(target, token, JSON, b"Content-Length: %d" % len(body)) + body


def in_chunks(body: bytes, size: int) -> Callable[[bytes], bytes]:
    """Return a function that makes a POST request with a chunked body."""
    pieces = (body[start : start + size] for start in range(0, len(body), size))
    chunked = b"".join(b"%x\r\n%b\r\n" % (len(piece), piece) for piece in pieces) + b"0\r\n\r\n"
    return lambda token: head(b"POST /plants", token, JSON, CHUNKED) + chunked


def filled(beginning: bytes, unit: bytes, end: bytes, size: int = BODY_BYTES) -> bytes:
    """Return a body of about this size, in which a unit is repeated."""
    times = (size - len(beginning) - len(end)) // len(unit)
    return beginning + unit * times + end


def good(size: int) -> Callable[[bytes], bytes]:
    """Return a function that makes a valid create; head, body and response have about this size."""
    ids = count(LARGE_ID * 10 + size * 10_000)
    name = "x" * max(1, (size - 330) // 2)

    def request(token: bytes) -> bytes:
        body = json.dumps({"id": next(ids), "name": name}).encode()
        return head(b"POST /plants", token, JSON, b"Content-Length: %d" % len(body)) + body

    return request


def fresh(body: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes creates with unused ids, which replace `%d` in the body."""
    ids = count(LARGE_ID * 100)

    def request(token: bytes) -> bytes:
        return post(body.replace(b"%d", b"%d" % next(ids)))(token)

    return request


def an_import(
    what: str, path: bytes, unit: bytes, beginning: bytes = b"", size: int = BODY_BYTES
) -> Attack:
    """Return an attack that imports a file in which a row is repeated."""
    body = filled(beginning, unit, b"", size)
    length = b"Content-Length: %d" % len(body)
    return Attack(
        f"an import of {what}",
        "create",
        lambda token: head(b"POST " + path, token, length) + body,
        times=5,
        is_import=True,
    )


def good_import(size: int) -> Callable[[bytes], bytes]:
    """Return a function that makes a valid import of about this size, with new ids each time."""
    ids = count(LARGE_ID * 1000)

    def request(token: bytes) -> bytes:
        rows = b"".join(
            b"%d,Abies %d,Abies\n" % (id_, id_ % 10**7)
            for id_ in itertools.islice(ids, size // USUAL_ROW_BYTES)
        )
        body = b"id,name,tag\n" + rows
        return head(b"POST " + CSV, token, b"Content-Length: %d" % len(body)) + body

    return request


JSON: Final = b"Content-Type: application/json"
CHUNKED: Final = b"Transfer-Encoding: chunked"
UPGRADE: Final = (b"Connection: Upgrade", b"Upgrade: h2c")
UNKNOWN: Final = b"Authorization: Bearer plst_0123456789012345678901234567890pV6Ps"
LONG: Final = b"x" * HEAD_BYTES
CSV: Final = b"/plants.csv"
NDJSON: Final = b"/plants.ndjson"
COLUMNS: Final = b"id,name\n"

ATTACKS: Final = [
    Attack("the smallest request", "no token", lambda _: b"GET /x HTTP/1.0\r\n\r\n"),
    Attack("a path of a head's length", "no token", get(b"/" + LONG)),
    Attack("a path of percent-encoded bytes", "no token", get(b"/" + b"%41" * (HEAD_BYTES // 3))),
    Attack(
        "the path of a plant, 31 KiB of digits", "no token", get(b"/plants/" + b"1" * HEAD_BYTES)
    ),
    Attack("a hundred fields", "no token", get(b"/healthz", *[b"a:b"] * 99)),
    Attack("more fields than are taken", "no token", get(b"/healthz", *[b"ab:cd"] * 4_000)),
    Attack("a field of a head's length", "no token", get(b"/healthz", b"X: " + LONG)),
    Attack(
        "a malformed token of 31 KiB", "no token", get(b"/plants", b"Authorization: Bearer " + LONG)
    ),
    Attack("a well-formed token that nobody has", "no token", get(b"/plants", UNKNOWN)),
    Attack("an offer to upgrade", "no token", get(b"/healthz", *UPGRADE, b"X: " + LONG)),
    Attack(
        "a body that is refused, in chunks of a byte",
        "no token",
        lambda _: in_chunks(b"x" * 60_000, 1)(b""),
        20,
    ),
    Attack("a request in packets of a byte", "no token", get(b"/healthz"), 50, 1),
    Attack("a field in packets of a byte", "no token", get(b"/healthz", b"X: " + LONG), 3, 1),
    Attack(
        "a body that is refused, in packets of a byte", "no token", post(b"x" * HEAD_BYTES), 3, 1
    ),
    Attack("Swagger UI", "no token", get(b"/docs")),
    Attack("a page of a thousand plants", "read", get(b"/plants?limit=1000")),
    Attack("a page of large plants", "read", get(b"/plants?limit=1000&after=999999"), 50),
    Attack("a page of control characters", "read", get(b"/plants?limit=1&after=1000001"), 50),
    Attack("a page of a tag", "read", get(b"/plants?limit=1000&tag=Genus%207")),
    Attack("a page of a tag of 31 KiB", "read", get(b"/plants?tag=" + LONG)),
    Attack("a page of a tag in percent-encoding", "read", get(b"/plants?tag=" + b"%C3%A9" * 5_000)),
    Attack("a large plant", "read", get(b"/plants/1000001"), 50),
    Attack("an id of 31 KiB of digits", "read", get(b"/plants/" + b"1" * HEAD_BYTES)),
    Attack("an id with 31 KiB of zeros", "read", get(b"/plants/1." + b"0" * HEAD_BYTES)),
    Attack("many parameters", "read", get(b"/plants?" + b"a&" * (HEAD_BYTES // 2))),
    Attack("a small body that is no plant", "create", post(b"{}")),
    Attack("the id of a large plant", "create", post(b'{"id":1000000,"name":"x"}')),
    Attack("a large name", "create", fresh(filled(b'{"id":%d,"name":"', b"x", b'"}')), 20),
    Attack("a large tag", "create", fresh(filled(b'{"id":%d,"name":"a","tag":"', b"x", b'"}')), 20),
    Attack(
        "a name of four-byte characters",
        "create",
        fresh(filled(b'{"id":%d,"name":"', "🌱".encode(), b'"}')),
        20,
    ),
    Attack(
        "a name of escaped characters",
        "create",
        fresh(filled(b'{"id":%d,"name":"', rb"\u0001", b'"}')),
        20,
    ),
    Attack(
        "a name of escaped surrogate pairs",
        "create",
        fresh(filled(b'{"id":%d,"name":"', rb"\ud83c\udf31", b'"}')),
        20,
    ),
    Attack("lone surrogates", "create", post(filled(b'{"id":1,"name":"', rb"\ud800", b'"}')), 20),
    Attack(
        "nested arrays and a lone surrogate",
        "create",
        post(filled(b'{"id":1,"name":"\\ud800","x":[', b"[[],[]],", b"[]]}")),
        20,
    ),
    Attack("arrays that nest deeply", "create", post(filled(b'{"x":', b"[", b"")), 20),
    Attack(
        "a member again and again", "create", post(filled(b'{"name":"a"', b',"id":1', b"}")), 20
    ),
    Attack(
        "an id of a mebibyte of digits",
        "create",
        post(filled(b'{"name":"a","id":', b"1", b"}")),
        20,
    ),
    Attack(
        "an id with a mebibyte of zeros",
        "create",
        post(filled(b'{"name":"a","id":1.', b"0", b"}")),
        20,
    ),
    Attack("numbers", "create", post(filled(b'{"name":"a","id":1,"x":[', b"1e9,", b"1]}")), 20),
    Attack(
        "not UTF-8, at the end",
        "create",
        post(filled(b'{"id":1,"name":"a","x":"', b"x", b'\xff"}')),
        20,
    ),
    Attack("not JSON, at the end", "create", post(filled(b'{"id":1,"name":"', b"x", b'"]')), 20),
    Attack("backslashes", "create", post(filled(b'{"id":1,"name":"', rb"\\", b'"]')), 20),
    Attack(
        "a body in chunks of a byte",
        "create",
        in_chunks(b'{"id":1,"name":"%b"}' % (b"x" * 60_000), 1),
        20,
    ),
    Attack(
        "a body in packets of a byte",
        "create",
        fresh(filled(b'{"id":%d,"name":"', b"x", b'"}', HEAD_BYTES)),
        3,
        1,
    ),
    Attack("a body that is too large, in chunks", "create", in_chunks(b"x" * 2 * MIB, 4096), 10),
    an_import("blank lines", NDJSON, b"\n"),
    an_import("lines that are not JSON", NDJSON, b"x\n"),
    an_import("objects without members", NDJSON, b"{}\n"),
    an_import("ids that are no integers", NDJSON, b'{"id":x,"name":""}\n'),
    an_import("as many errors as are listed", NDJSON, b"x\n", size=2_000),
    an_import("the id of another plant", NDJSON, b'{"id":1000000,"name":"x"}\n'),
    an_import("blank rows", CSV, b"\n", COLUMNS),
    an_import("rows of one cell", CSV, b"x\n", COLUMNS),
    an_import("empty cells", CSV, b",\n", COLUMNS),
    an_import("bytes that are not UTF-8", CSV, b"1,\xff\n", COLUMNS),
    an_import("rows that each open a quote", CSV, b'"a\n', COLUMNS),
    an_import("a quote that is not closed", CSV, "é\n".encode(), COLUMNS + b'1,"'),
    Attack(
        "the deletion of what is not there",
        "change",
        lambda token: head(b"DELETE /plants/-1", token),
    ),
    Attack("a plant of a mebibyte in the place of another", "change", put_large),
]

# As many bytes as an import must send per second. The row is in the store after the first time.
SLOW_ROWS: Final = filled(b'{"id":-1000,"name":"', b"x", b'"}\n', BYTES_PER_SECOND_MIN)


def begin_import(token: bytes) -> bytes:
    """Return the head of an import that is sent in chunks."""
    return head(b"POST " + NDJSON, token, CHUNKED)


HOLDS: Final = [
    Hold(
        "an import that arrives as slowly as it may",
        "create",
        begin_import,
        b"%x\r\n%b\r\n" % (len(SLOW_ROWS), SLOW_ROWS),
    ),
    Hold("an import that never arrives", "create", begin_import),
    Hold("an export that is not read", "read", get(b"/plants", b"Accept: " + NDJSON)),
]
