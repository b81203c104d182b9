"""A reference parser of request bodies, and bodies that are nearly valid."""

import json
from decimal import Decimal, InvalidOperation
from typing import Any

import msgspec
from hypothesis import strategies as st

from plantstore.changes import Swap
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant

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
    *(b"\xef\xbb\xbf", b"\0", b"\r\n", b" ", b"\x1a", b",", b'"', b"\\", b"{", b"}", b"\xc2\xa0"),
]


def read_plainly(body: bytes) -> NewPlant | None:
    """Parse a NewPlant by RFC 8259 and the schema; return None if it is invalid.

    This is the reference parser; its speed does not matter.
    """
    record = read_members(body)
    if record is None or not {"id", "name"} <= record.keys():
        return None
    # If a member is repeated, the last value counts. The earlier values of a name or tag must be
    # strings, too.
    id_, names, tags = int64_of(record["id"][-1]), record["name"], record.get("tag", [])
    if id_ is None or not all(isinstance(text, str) for text in names + tags):
        return None
    name, tag = names[-1], tags[-1] if tags else None
    return None if "\0" in name + (tag or "") else NewPlant(id_, name, tag)


def read_swap_plainly(line: bytes) -> Swap | None:
    """Parse a line of a list of changes, as `read_plainly` parses a plant."""
    record = read_members(line)
    if record is None or not {"id", "after"} <= record.keys():
        return None
    id_, states = int64_of(record["id"][-1]), record.get("before", []) + record["after"]
    if id_ is None or not all(map(_is_state, states)):
        return None
    after = _state_of(record["after"][-1])
    before = _state_of(record["before"][-1]) if "before" in record else msgspec.UNSET
    return None if before is after is None else Swap(id_, before, after)


def _is_state(state: Any) -> bool:
    if not isinstance(state, dict):
        return state is None
    names, tags = state.get("name", []), [tag for tag in state.get("tag", []) if tag is not None]
    texts = names + tags
    return bool(names) and all(isinstance(each, str) and "\0" not in each for each in texts)


def _state_of(state: dict[str, list[Any]] | None) -> Plant | None:
    return None if state is None else Plant(state["name"][-1], state.get("tag", [None])[-1])


def int64_of(number: Any) -> int | None:
    """Return a number that is an int64 as one, or else None."""
    is_one = isinstance(number, Decimal) and ID_MIN <= number <= ID_MAX
    return int(number) if is_one and number == number.to_integral_value() else None


def read_members(body: bytes) -> dict[str, list[Any]] | None:
    """Return the values of each member of a JSON object, or None if it is none.

    A number is a Decimal, which is exact and can represent `1e999999999`. The parser of the
    standard library limits the depth.
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
    return record if isinstance(record, dict) else None


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


USUAL = {"id": "7", "name": '"Rosa ×"', "tag": '"a"'}
NAMES = [*USUAL, "\\u0069d", "ID", "ame", "tag ", "x"]


@st.composite
def nearly_valid_bodies(draw: st.DrawFn) -> bytes:
    """Draw an object that may lack a member or have others, and then change its bytes."""
    values = st.sampled_from(VALUES)
    members = [
        *USUAL.items(),
        *draw(st.lists(st.tuples(st.sampled_from(NAMES), values), max_size=2)),
    ]
    colon, comma = draw(st.sampled_from([(":", ","), ("\t:\r\n", " ,\n")]))
    kept = draw(st.permutations(members))[draw(st.integers(0, 1)) :]
    written = comma.join(f'"{name}"{colon}{text}' for name, text in kept)
    body = f"{{{written}}}".encode()
    at = draw(st.integers(0, len(body)))
    more = draw(st.just(b"") | st.sampled_from(BAD_BYTES + ODD_BYTES))
    return body[:at] + more + draw(st.sampled_from([body[at:], body[at:], b""]))
