"""The most expensive known requests of each kind of client."""

import contextlib
import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from plantstore.api.file_imports import BYTES_PER_SECOND_MIN
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from plantstore.server.http11 import READ_FIELDS, VALUE_BYTES_MAX
from plantstore.tokens import SCOPES as ALL_SCOPES
from support.document import OPERATIONS, Operation
from support.service import Service
from support.wire import chunk, in_chunks

KIB: Final = 1024
MIB: Final = 1024 * KIB

# The sizes of large heads and bodies, just below the limits of the service.
HEAD_BYTES: Final = 31 * KIB
BODY_BYTES: Final = PLANT_BYTES_MAX - 100

# Plants that are stored before the attacks: plants of usual size, and plants of 16 KiB, whose ids
# begin at LARGE_ID. They are as many as are sorted for one page. All of usual size match MATCH, and
# half of them have the tag COMMON.
USUAL_PLANTS: Final = 10_000
MATCH: Final = "Abies"
COMMON: Final = "Common"
LARGE_ID: Final = 1_000_000

# The average size of the rows of a catalogue of 27,000 plants.
USUAL_ROW_BYTES: Final = 31
LARGE_PLANTS: Final = 1_200

# The permissions of each kind of client.
SCOPES: Final = {
    "read": ["plants:read"],
    "create": ["plants:create"],
    "change": ["plants:update", "plants:delete"],
    "follow": ["changes:read"],
    "any": [*ALL_SCOPES],
}


@dataclass(frozen=True)
class Attack:
    """A request that is sent repeatedly.

    Attributes:
        name: its name in the table of results.
        client: the kind of its client: `no token`, or one of SCOPES.
        request: returns the bytes of one request; its argument is the Authorization field.
        times: the number of measured requests.
        piece_bytes: the size of the packets in which it is sent; None to send it at once.
        is_import: whether it is compared with a valid import, and not with a create. An undo is an
            import of what its plants were.
        piece: of a request that does not end, what is sent each second after its beginning.

    """

    name: str
    client: str
    request: Callable[[bytes], bytes]
    times: int = 200
    piece_bytes: int | None = None
    is_import: bool = False
    piece: bytes | None = None


def stored() -> Iterator[NewPlant]:
    """Yield the plants that are stored before the attacks."""
    for id_ in range(USUAL_PLANTS):
        tag = f"Genus {id_ % 50}" if id_ % 2 else COMMON
        yield NewPlant(id_, f"{MATCH} balsamea (L.) Mill. {id_}", tag)
    for id_ in range(LARGE_PLANTS):
        character, size = [("x", 1), ("é", 2), ("\x01", 6), ("🌱", 4)][id_ % 4]
        yield NewPlant(LARGE_ID + id_, character * (BODY_BYTES // size))


@contextlib.contextmanager
def attacked(folder: Path, *options: str) -> Iterator[Service]:
    """Run a service that has the plants of the attacks."""
    with Service(folder, *options) as service:
        service.change(*stored())
        yield service


def authorizations(service: Service) -> dict[str, str]:
    """Create a token for each kind of client; return their Authorization fields."""
    return {"no token": ""} | {
        client: f"Authorization: Bearer {service.token(*scopes, name=client)}"
        for client, scopes in SCOPES.items()
    }


def bare(start: bytes, *fields: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes the head of a request."""
    return lambda token: head(start, token, *fields)


def get(target: bytes, *fields: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes a GET request."""
    return bare(b"GET " + target, *fields)


def send(start: bytes, body: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes a request with a body, in which an unused id replaces `%d`."""

    def request(token: bytes) -> bytes:
        data = body.replace(b"%d", b"%d" % next(IDS))
        return head(start, token, JSON, b"Content-Length: %d" % len(data)) + data

    return request


def create(body: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes a create."""
    return send(b"POST /plants", body)


def head(start: bytes, *fields: bytes) -> bytes:
    """Return the head of a request; empty fields are left out."""
    lines = [start + b" HTTP/1.1", b"Host: x", *filter(None, fields)]
    return b"\r\n".join([*lines, b"", b""])


def chunked(body: bytes, size: int) -> Callable[[bytes], bytes]:
    """Return a function that makes a POST request with a chunked body."""
    chunks = in_chunks(body, size)
    return lambda token: head(b"POST /plants", token, JSON, CHUNKED) + chunks


def filled(beginning: bytes, unit: bytes, end: bytes = b"", size: int = BODY_BYTES) -> bytes:
    """Return a body of about this size, in which a unit is repeated."""
    times = (size - len(beginning) - len(end)) // len(unit)
    return beginning + unit * times + end


def import_of(path: bytes, body: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes an import."""
    return lambda token: head(b"POST " + path, token, b"Content-Length: %d" % len(body)) + body


def good(size: int) -> Callable[[bytes], bytes]:
    """Return a function that makes a valid create; head, body and response have about this size."""
    return create(filled(b'{"id":%d,"name":"x', b"x", b'"}', max(100, (size - 300) // 2)))


def good_import(size: int) -> Callable[[bytes], bytes]:
    """Return a function that makes a valid import of about this size, with new ids each time."""

    def request(token: bytes) -> bytes:
        ids = itertools.islice(IDS, size // USUAL_ROW_BYTES)
        rows = b"".join(b"%d,Abies %d,Abies\n" % (id_, id_ % 10**7) for id_ in ids)
        return import_of(CSV, b"id,name,tag\n" + rows)(token)

    return request


# Unused ids.
IDS: Final = itertools.count(LARGE_ID * 10)

JSON: Final = b"Content-Type: application/json"
CHUNKED: Final = b"Transfer-Encoding: chunked"
UPGRADE: Final = (b"Connection: Upgrade", b"Upgrade: h2c")
UNKNOWN: Final = b"Authorization: Bearer plst_0123456789012345678901234567890pV6Ps"
LONG: Final = b"x" * HEAD_BYTES
EVENTS: Final = b"Accept: text/event-stream"
UNFINISHED: Final = head(b"GET /", b"X: " + LONG)[:-2]
CSV: Final = b"/plants.csv"
NDJSON: Final = b"/plants.ndjson"
CHANGES: Final = b"/changes"
UNDO: Final = b"/undo"

# GET requests: the client, the target, and more fields.
GETS: Final[dict[str, tuple[str, bytes, list[bytes]]]] = {
    "a path of a head's length": ("no token", b"/" + LONG, []),
    "a path of percent-encoded bytes": ("no token", b"/" + b"%41" * (HEAD_BYTES // 3), []),
    "a hundred fields": ("no token", b"/healthz", [b"a:b"] * 99),
    "more fields than are taken": ("no token", b"/healthz", [b"ab:cd"] * 4_000),
    "a field of a head's length": ("no token", b"/healthz", [b"X: " + LONG]),
    "a malformed token of 31 KiB": ("no token", b"/plants", [b"Authorization: Bearer " + LONG]),
    "a well-formed token that nobody has": ("no token", b"/plants", [UNKNOWN]),
    "an offer to upgrade": ("no token", b"/healthz", [*UPGRADE, b"X: " + LONG]),
    "Swagger UI": ("no token", b"/docs", []),
    "a page of large plants": ("read", b"/plants?limit=1000&after=999999", []),
    "a page of control characters": ("read", b"/plants?limit=1&after=1000001", []),
}

# Bodies of creates, in which a unit is repeated: the beginning, the unit, and the end.
BODIES: Final = {
    "a large name": (b'{"id":%d,"name":"', b"x", b'"}'),
    "a large tag": (b'{"id":%d,"name":"a","tag":"', b"x", b'"}'),
    "a name of four-byte characters": (b'{"id":%d,"name":"', "🌱".encode(), b'"}'),
    "a name of escaped characters": (b'{"id":%d,"name":"', rb"\u0001", b'"}'),
    "a name of escaped surrogate pairs": (b'{"id":%d,"name":"', rb"\ud83c\udf31", b'"}'),
    "lone surrogates": (b'{"id":1,"name":"', rb"\ud800", b'"}'),
    "nested arrays and a lone surrogate": (b'{"id":1,"name":"\\ud800","x":[', b"[[],[]],", b"[]]}"),
    "arrays that nest deeply": (b'{"x":', b"[", b""),
    "a member again and again": (b'{"name":"a"', b',"id":1', b"}"),
    "an id of 16 KiB of digits": (b'{"name":"a","id":', b"1", b"}"),
    "an id with 16 KiB of zeros": (b'{"name":"a","id":1.', b"0", b"}"),
    "numbers": (b'{"name":"a","id":1,"x":[', b"1e9,", b"1]}"),
    "not UTF-8, at the end": (b'{"id":1,"name":"a","x":"', b"x", b'\xff"}'),
    "not JSON, at the end": (b'{"id":1,"name":"', b"x", b'"]'),
    "backslashes": (b'{"id":1,"name":"', rb"\\", b'"]'),
}

# Files of a mebibyte, in which a row is repeated: the path, the beginning, and the row.
FILES: Final = {
    "blank lines": (NDJSON, b"", b"\n"),
    "lines that are not JSON": (NDJSON, b"", b"x\n"),
    "objects without members": (NDJSON, b"", b"{}\n"),
    "ids that are no integers": (NDJSON, b"", b'{"id":x,"name":""}\n'),
    "the id of another plant": (NDJSON, b"", b'{"id":1000000,"name":"x"}\n'),
    "blank rows": (CSV, b"id,name\n", b"\n"),
    "rows of one cell": (CSV, b"id,name\n", b"x\n"),
    "empty cells": (CSV, b"id,name\n", b",\n"),
    "rows without most of their cells": (CSV, b"id,name" + b"," * 16_000 + b"tag\n", b"x,a\n"),
    "bytes that are not UTF-8": (CSV, b"id,name\n", b"1,\xff\n"),
    "rows that each open a quote": (CSV, b"id,name\n", b'"a\n'),
    "a quote that is not closed": (CSV, b'id,name\n1,"', "é\n".encode()),
}

IMPORTS: Final = {
    "as many errors as are listed": import_of(NDJSON, b"x\n" * 1_000),
} | {
    what: import_of(path, filled(beginning, row, size=MIB))
    for what, (path, beginning, row) in FILES.items()
}

# Lines of lists of changes, which are repeated in a mebibyte; an id of a large plant replaces `%d`.
LINES: Final = {
    "lines that are not JSON": b"x\n",
    "the deletion of what is not there": b'{"id":-1,"after":null}\n',
    "lines that are not valid": b'{"id":0,"after":null,"before":null}\n',
    "ids that are no integers": b'{"id":x,"after":null}\n',
    "what large plants are not": b'{"id":%d,"before":null,"after":{"name":""}}\n',
}


def changes_of(line: bytes) -> Callable[[bytes], bytes]:
    """Return a function that makes a list of changes of a mebibyte."""
    ids = itertools.cycle(range(LARGE_ID, LARGE_ID + LARGE_PLANTS))
    many = MIB // (len(line) + 5 * line.count(b"%d"))
    return import_of(CHANGES, b"".join(line.replace(b"%d", b"%d" % next(ids)) for _ in range(many)))


# Requests in packets of a byte: the client, and the request.
IN_PACKETS: Final = {
    "a field": ("no token", get(b"/healthz", b"X: " + LONG)),
    "a body that is refused,": ("no token", create(LONG)),
    "a body": ("create", create(filled(*BODIES["a large name"], HEAD_BYTES))),
}

SMALL_CHUNKS: Final = chunked(b'{"id":1,"name":"%b"}' % (b"x" * 15_000), 1)
REPLACE: Final = send(
    b"PUT /plants/%d" % (LARGE_ID + LARGE_PLANTS - 1), filled(b'{"name":"', b"x", b'"}')
)
DELETE_TOO_LARGE: Final = send(b"DELETE /plants/-1", b"x" * 2 * MIB)

ATTACKS: Final = [
    Attack("the smallest request", "no token", lambda _: b"GET /x HTTP/1.0\r\n\r\n"),
    *(
        Attack(name, client, get(target, *fields), 100)
        for name, (client, target, fields) in GETS.items()
    ),
    Attack("a request in packets of a byte", "no token", get(b"/healthz"), 50, 1),
    *(Attack(f"{what} in packets of a byte", *how, 3, 1) for what, how in IN_PACKETS.items()),
    Attack("a body that is refused, in chunks of a byte", "no token", SMALL_CHUNKS, 20),
    Attack("a body in chunks of a byte", "create", SMALL_CHUNKS, 20),
    Attack("a body that is too large, in chunks", "create", chunked(b"x" * 2 * MIB, 4096), 10),
    Attack("a small body that is no plant", "create", create(b"{}")),
    Attack("the id of a large plant", "create", create(b'{"id":1000000,"name":"x"}')),
    *(Attack(name, "create", create(filled(*parts)), 20) for name, parts in BODIES.items()),
    *(
        Attack(f"an import of {what}", "create", request, 5, is_import=True)
        for what, request in IMPORTS.items()
    ),
    *(
        Attack(f"changes: {what}", "any", changes_of(line), 5, is_import=True)
        for what, line in LINES.items()
    ),
    Attack("the deletion of what is not there", "change", bare(b"DELETE /plants/-1")),
    Attack("a deletion with a body that is too large", "change", DELETE_TOO_LARGE, 10),
    Attack("a large plant in the place of another", "change", REPLACE),
]


def full(name: str) -> bytes:
    """Return a field that is read, of the largest size, with as many elements as possible."""
    unit = {"accept": b"*/*,", "if-match": b'"",', "if-none-match": b'"",'}.get(name, b",")
    return name.encode() + b": " + unit * (VALUE_BYTES_MAX // len(unit))


# The most expensive values of the parameters of all operations, by name. Those with an enumeration
# in the interface document have each of its values instead.
_ETAGS: Final = b'"",' * (VALUE_BYTES_MAX // len(b'"",'))
WORST: Final[dict[str, list[bytes]]] = {
    "id": [b"%d" % (LARGE_ID + 1)],
    "limit": [b"1000", b"1"],
    "after": [b"0", b"1", b"999999", b"now", b"1.genus"],
    "before": [b"1", b"999999", b"%d" % 2**62],
    "from": [b"a", b"abies balsamea (l.) mill. 9", b"%C3%A9" * 100],
    "tag": [COMMON.encode(), b"Genus%207", b"%C3%A9" * 5_000],
    "untagged": [b"true"],
    "q": [
        MATCH.encode(),
        b"a",
        b"a+b+l+m+1",
        b"abies+balsamea+mill+1",
        b"x",
        b"g",
        b"12",
        b"+".join(b"%d" % number for number in range(10, 43)),
        b"%C3%A9" * 100,
    ],
    "count": [b"1000"],
    "dry-run": [b"true"],
    "set": [b"x" * 64],
    "Prefer": [b"count=exact", b"return=minimal", b"count=exact," * 80],
    "If-Match": [_ETAGS],
    "If-None-Match": [_ETAGS],
    "Last-Event-ID": [b"0"],
    "Change-Set": [b"x" * 64],
}

# The largest matches of a listing; with the other parameters, too.
MATCHES: Final = [
    b"q=" + MATCH.encode(),
    b"q=a&sort=name",
    b"tag=" + COMMON.encode(),
    b"untagged=true&sort=name",
]


def of_parameters(operation: Operation) -> Iterator[tuple[str, str, bytes, list[bytes]]]:
    """Yield a name of an attack, its path, query and fields, for each value of each parameter."""
    parameters = operation.parameters()
    queries = {each["name"] for each in parameters if each["in"] == "query"}
    limit = [b"limit=1000"] if "limit" in queries else []
    matches = [[], *([match] for match in MATCHES)] if "tag" in queries else [[]]
    for each in parameters:
        name, place = each["name"], each["in"]
        values = [value.encode() for value in each["schema"].get("enum", ())] or WORST.get(name, [])
        for value, match in itertools.product(values, matches):
            path, query, fields = operation.path, [*match], []
            if place == "path":
                path = path.replace("{id}", value.decode())
            elif place == "header":
                fields = [name.encode() + b": " + value]
            elif any(
                part.startswith(name.encode() + b"=") for part in b"&".join(match).split(b"&")
            ):
                continue
            else:
                query.append(name.encode() + b"=" + value)
            if name != "limit":
                query += limit
            shown = f"{name}={value[:30].decode()}" + "".join(f"&{part.decode()}" for part in match)
            yield f" with `{shown}`", path, b"&".join(query), fields


def of_operation(operation: Operation) -> Iterator[Attack]:
    """Yield the attacks on an operation that follow from its place in the interface document."""
    method = operation.method.encode()
    media_type, body = next(iter(operation.bodies()), ("", b""))
    client = "any" if operation.needs_token else "no token"
    content = (b"Content-Type: " + media_type.encode(), b"Content-Length: %d" % len(body))
    own = {b"authorization", b"connection", b"content-encoding", b"content-type", b"expect"}
    fields = [full(name.decode()) for name in sorted(READ_FIELDS - own)]

    def attack(
        what: str,
        query: bytes = b"",
        *more: bytes,
        client: str = client,
        path: str = operation.path,
    ) -> Attack:
        target = path.replace("{id}", "1").encode()
        start = b"%b %b" % (method, target + b"?" + query if query else target)

        def request(token: bytes) -> bytes:
            return head(start, token, *content, *more) + body

        name = f"{operation.method} {operation.path}{what}"
        times = 5 if target in (CSV, NDJSON) and method == b"GET" else 10
        is_import = target in (CSV, NDJSON, CHANGES, UNDO) and method == b"POST"
        return Attack(name, client, request, times, is_import=is_import)

    queries = [each["name"] for each in operation.parameters() if each["in"] == "query"]
    yield attack("", b"limit=1000" if "limit" in queries else b"")
    yield attack(" with full fields", b"", *fields)
    yield attack(" with full fields and no token", b"", *fields, client="no token")
    yield attack(" with a full query", b"a&" * (HEAD_BYTES // 2))
    for name in queries:
        yield attack(f" with a full `{name}`", name.encode() + b"=" + b"1" * HEAD_BYTES)
    for what, path, query, more in of_parameters(operation):
        yield attack(what, query, *more, path=path)


OF_OPERATIONS: Final = [each for operation in OPERATIONS for each in of_operation(operation)]

# As many bytes as an import must send per second. The row is in the store after the first time.
SLOW_ROW: Final = filled(b'{"id":-1000,"name":"', b"x", b'"}\n', BYTES_PER_SECOND_MIN)
BEGIN_IMPORT: Final = bare(b"POST " + NDJSON, CHUNKED)

# Requests that do not end: their clients send or read as little as they may.
HOLDS: Final = [
    Attack(
        "an import that arrives as slowly as it may", "create", BEGIN_IMPORT, piece=chunk(SLOW_ROW)
    ),
    Attack("an import that never arrives", "create", BEGIN_IMPORT, piece=b""),
    Attack("an export that is not read", "read", get(NDJSON), piece=b""),
    Attack("a stream that is not read", "follow", get(b"/changes", EVENTS), piece=b""),
    Attack("a head that does not end", "no token", lambda _: UNFINISHED, piece=b""),
    Attack("files that are not read", "no token", lambda _: get(b"/docs")(b"") * 500, piece=b""),
]

REQUESTS: Final = {attack.name: attack for attack in ATTACKS + HOLDS}
