"""Lines of changes: which are valid, and what is wrong with the others."""

import json

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from plantstore.changes import Swap
from plantstore.errors import ErrorCode, RequestError
from plantstore.formats.json_lines import CHANGE_BYTES_MAX, ChangeLinesParser
from plantstore.formats.rows import Rows
from plantstore.plants import PLANT_BYTES_MAX, Plant
from support.bodies import BAD_BYTES, ODD_BYTES, VALUES, read_swap_plainly


def permit(_swap: Swap) -> None:
    """Permit every change."""


def read(*pieces: bytes) -> tuple[Rows, ChangeLinesParser]:
    parser, rows = ChangeLinesParser(permit), Rows()
    for piece in pieces:
        rows.extend(parser.feed(piece))
    rows.extend(parser.finish())
    return rows, parser


def error_of(line: bytes) -> RequestError:
    """Return the error of a line, between two that are valid."""
    valid = b'{"id":1,"after":null}\n'
    rows, parser = read(valid + line + b"\n" + valid)
    assert rows.items == [Swap(1, msgspec.UNSET, None), None, Swap(1, msgspec.UNSET, None)]
    return parser.explain(rows.texts[1])


LARGE = "x" * (PLANT_BYTES_MAX - 18)


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        (b'{"id":1}', ErrorCode.INVALID_PLANT, "`after` is missing"),
        (
            b'{"id":1,"before":null,"after":null}',
            *(ErrorCode.INVALID_PLANT, "`before` and `after` must not both be null"),
        ),
        (
            b'{"id":1,"before":{"name":"a","tag":1},"after":null}',
            *(ErrorCode.INVALID_PLANT, "`before.tag` must be a string or null, got a number"),
        ),
        (b'{"id":1.5,"after":null}', ErrorCode.INVALID_PLANT, "`id` must be an integer from"),
        (b'{"id":1,"after":null,"x":"\xff"}', ErrorCode.NOT_JSON, "not UTF-8"),
        (
            b'{"id":1,"after":{"name":"a","tag":"\\u0000"}}',
            *(ErrorCode.UNSTORABLE_TEXT, "`after.tag` must not contain U+0000"),
        ),
        (
            b'{"id":1,"after":{"name":"%b"}}' % (LARGE + "xx").encode(),
            *(ErrorCode.BODY_TOO_LARGE, "no larger than 16384 bytes"),
        ),
        (
            b'{"id":1,"after":null}' + b" " * (CHANGE_BYTES_MAX - 20),
            *(ErrorCode.BODY_TOO_LARGE, f"larger than {CHANGE_BYTES_MAX} bytes"),
        ),
    ],
)
def test_a_line_that_is_not_valid_is_named_with_its_reason(
    line: bytes, code: ErrorCode, said: str
) -> None:
    error = error_of(line)

    assert error.code is code
    assert said in error.message


def test_two_plants_of_the_largest_size_fit_into_a_line() -> None:
    plants = [Plant(char * (len(LARGE) - 20) + "a" * 20) for char in "xy"]
    line = msgspec.json.encode({"id": 1, "before": plants[0], "after": plants[1]})

    rows, _ = read(line)

    assert rows.items == [Swap(1, *plants)]
    assert CHANGE_BYTES_MAX == 33 * 1024


members = st.sampled_from(["id", "before", "after", "x"])
plants = st.sampled_from(
    ['{"name":"a"}', '{"name":"a","tag":"t"}', '{"name":"a","tag":null}', '{"tag":"t"}', "null"]
)


@st.composite
def nearly_valid_lines(draw: st.DrawFn) -> bytes:
    """Draw an object that may lack a member or have others, and then change its bytes."""
    parts = {"id": "7", "before": draw(plants), "after": draw(plants)}
    parts |= draw(st.dictionaries(members, st.sampled_from(VALUES) | plants, max_size=2))
    kept = draw(st.permutations([*parts.items()]))[draw(st.integers(0, 1)) :]
    body = f"{{{','.join(f'{json.dumps(name)}:{text}' for name, text in kept)}}}".encode()
    at = draw(st.integers(0, len(body)))
    more = draw(st.just(b"") | st.sampled_from(BAD_BYTES + ODD_BYTES))
    line = body[:at] + more + draw(st.sampled_from([body[at:], body[at:], b""]))
    return line.replace(b"\n", b" ")


@given(nearly_valid_lines())
def test_a_line_is_read_as_by_a_reference(line: bytes) -> None:
    expected = read_swap_plainly(line)

    rows, parser = read(b'{"id":0,"after":null}\n', line)

    assert rows.items[1:] == ([expected] if line.strip() else [])
    assert expected is not None or all(parser.explain(text) for text in rows.texts[1:])
