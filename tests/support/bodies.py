"""Random request bodies, valid and invalid, and a reference parser for them.

A seed determines all bodies. The HTTP framing is always valid, so a connection can send
many requests; the body inside may be invalid.
"""

import json
import random
from collections.abc import Iterator
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple

from plantstore.plants import ID_MAX, ID_MIN, PLANT_BYTES_MAX, NewPlant
from support.wire import head, in_chunks, with_length

JSON_TYPE = "application/json"
OTHER_TYPES = ["text/plain", "application/jsonx", "application/json; charset=latin-1", ""]

NAMES = ["Abies balsamea (L.) Mill.", "Rosa × damascena", "🌱", "", "x" * 300, '\t"\\/\x7f\u2028']
TAGS = ["Abies", "", "×" * 20, "\n", "🌱"]

# A nesting depth far above the limit of every parser used here.
DEEP = 3_000

# Texts to use as the value of a member, valid JSON or not.
VALUES = [
    *("null", "true", "false", "0", "-0", "1", "1.5", "[]", "{}", '""', '"1"', '"a"'),
    *("1e3", "120e-1", "1E+2", "01", "+1", "1.", ".5", "--1", "1e", "0x10", "1_0", ""),
    *("NaN", "Infinity", "-Infinity", "undefined", "'a'", "/**/1", "[1,]", '{"a":1,}'),
    *(f"{ID_MAX}", f"{ID_MIN}", f"{ID_MAX + 1}", f"{ID_MIN - 1}", f"{ID_MAX}.0", f"{ID_MAX}.1"),
    *("9" * 3_000, "1e400", "1e-400", "1e999999999", "0e999999999", f"0.{'0' * 900}1e901"),
    *('"\\ud800"', '"\\udc00\\ud800"', '"\\ud83c\\udf31"', '"\\ud83c"', '"\\u0000"', '"a\\u0000"'),
    *('"\\x"', '"\\u12"', '"\\u00e9"', '"\\/\\b\\f"', '"\x01"', '"\x7f"', '"a', '"\u2028"'),
    *("[" * 50 + "]" * 50, "[" * DEEP + "]" * DEEP, "[" * DEEP, '{"a":' * DEEP + "1" + "}" * DEEP),
]

# Bytes that are invalid in UTF-8: an invalid byte, a lone start byte, a lone continuation byte,
# an overlong form, a surrogate, and a code point that is too high.
BAD_BYTES = [b"\xff", b"\xc3", b"\x80", b"\xc0\xaf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80"]
ODD_BYTES = [
    b"\xef\xbb\xbf",
    b"\0",
    b"\r\n",
    b" ",
    b"\x1a",
    b",",
    b'"',
    b"\\",
    b"{",
    b"}",
    b"\xc2\xa0",
]

# The members of an object: the text of each name and value.
Members = list[tuple[str, str]]


class Sending(NamedTuple):
    """A body with its media type; it is chunked unless `chunk_bytes` is 0."""

    body: bytes
    media_type: str = JSON_TYPE
    chunk_bytes: int = 0

    def request(self, token: str) -> bytes:
        """Return the request that creates the plant."""
        field, body = with_length(self.body)
        if self.chunk_bytes:
            field, body = b"Transfer-Encoding: chunked", in_chunks(body, self.chunk_bytes)
        return head(token, field, media_type=self.media_type) + body


def sendings(seed: int, number: int) -> Iterator[Sending]:
    """Yield `number` random sendings. Only a few plants occur with more than one seed."""
    chance = random.Random(seed)
    for serial in range(number):
        yield _draw(chance, seed * 10_000_000 + serial)


def read_plainly(body: bytes) -> NewPlant | None:
    """Parse a NewPlant by RFC 8259 and the schema; return None if it is invalid.

    This is the reference parser; its speed does not matter. A number is a Decimal, which is
    exact and can represent `1e999999999`. The parser of the standard library limits the depth.
    """
    try:
        record = json.loads(
            body.decode(),
            parse_int=_number,
            parse_float=_number,
            parse_constant=_refuse,
            object_pairs_hook=_members,
        )
    except (ValueError, RecursionError):
        return None
    if not isinstance(record, dict) or not {"id", "name"} <= record.keys():
        return None
    # If a member is repeated, the last value counts (docs/decisions/0001). The earlier values
    # of a name or tag must be strings, too.
    id_, names, tags = record["id"][-1], record["name"], record.get("tag", [])
    if not isinstance(id_, Decimal) or not ID_MIN <= id_ <= ID_MAX:
        return None
    if id_ != id_.to_integral_value() or not all(isinstance(text, str) for text in names + tags):
        return None
    name, tag = names[-1], tags[-1] if tags else None
    return None if "\0" in name + (tag or "") else NewPlant(int(id_), name, tag)


def _number(text: str) -> Decimal:
    try:
        return Decimal(text)
    except InvalidOperation:  # an exponent of twenty digits
        is_zero = not set(text.lower().partition("e")[0]) & set("123456789")
        return Decimal(0) if is_zero else Decimal("Infinity")


def _refuse(constant: str) -> None:
    raise ValueError(constant)


def _members(pairs: list[tuple[str, Any]]) -> dict[str, list[Any]]:
    found: dict[str, list[Any]] = {}
    for name, value in pairs:
        # A lone surrogate in a name or in any string of the value cannot be encoded in UTF-8.
        json.dumps([name, value], ensure_ascii=False, default=str).encode()
        found.setdefault(name, []).append(value)
    return found


def _draw(chance: random.Random, serial: int) -> Sending:
    members = _valid_members(chance, serial)
    kind = chance.random()
    if kind < 0.35:
        for _ in range(chance.randint(1, 2)):
            chance.choice(MEMBER_MUTATIONS)(chance, members)
    body = _join(chance, members)
    if 0.25 < kind < 0.6:
        for _ in range(chance.randint(1, 2)):
            body = chance.choice(BYTE_MUTATIONS)(chance, body)
    if kind > 0.9998:
        body += b" " * PLANT_BYTES_MAX
    media_type = chance.choice(OTHER_TYPES) if chance.random() < 0.01 else JSON_TYPE
    chunk_bytes = (
        chance.randint(len(body) // 50 + 1, len(body) + 2) if chance.random() < 0.05 else 0
    )
    return Sending(body, media_type, chunk_bytes)


def _valid_members(chance: random.Random, serial: int) -> Members:
    """Return the members of a random plant, usually with a unique id, in random spelling."""
    id_ = chance.choice([serial] * 17 + [-serial, chance.randint(0, 9), ID_MAX - serial])
    spelled = chance.choice(["{}"] * 7 + ["{}.0", "{}0e-1", "{}.000E+0"]).format(id_)
    name = f"{chance.choice(NAMES)} {serial}" if id_ > 9 else "a"
    members = [("id", spelled), ("name", _spell(chance, name))]
    if chance.random() < 0.7:
        members.append(("tag", _spell(chance, chance.choice(TAGS))))
    if chance.random() < 0.2:
        chance.shuffle(members)
    return members


def _spell(chance: random.Random, text: str) -> str:
    if chance.random() < 0.9:
        return json.dumps(text, ensure_ascii=chance.random() < 0.5)
    units = text.encode("utf-16-be").hex()  # each character is escaped
    return '"' + "".join("\\u" + units[at : at + 4] for at in range(0, len(units), 4)) + '"'


def _join(chance: random.Random, members: Members) -> bytes:
    colon, comma = chance.choice([(":", ","), (": ", ", "), ("\t:\r\n", " ,\n")])
    written = comma.join(f'"{name}"{colon}{value}' for name, value in members)
    return f"{{{written}}}".encode()


def _with_another_value(chance: random.Random, members: Members) -> None:
    at = chance.randrange(len(members))
    members[at] = (members[at][0], chance.choice(VALUES))


def _doubled(chance: random.Random, members: Members) -> None:
    name, value = chance.choice(members)
    again = (name, chance.choice([value, *VALUES]))
    members.insert(chance.randint(0, len(members)), again)


def _renamed(chance: random.Random, members: Members) -> None:
    at = chance.randrange(len(members))
    name, value = members[at]
    escaped = "".join(f"\\u{ord(first):04x}" for first in name[:1]) + name[1:]
    members[at] = (chance.choice([escaped, name.upper(), name[1:], f"{name} "]), value)


MEMBER_MUTATIONS = [_with_another_value, _doubled, _renamed]


def _cut(chance: random.Random, body: bytes) -> bytes:
    at = chance.randrange(len(body) + 1)
    return chance.choice([body[:at], body[at:]])


def _with_more(chance: random.Random, body: bytes) -> bytes:
    at = chance.choice([0, len(body), chance.randrange(len(body) + 1)])
    return body[:at] + chance.choice(BAD_BYTES + ODD_BYTES) + body[at:]


BYTE_MUTATIONS = [_cut, _with_more]
