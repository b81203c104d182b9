"""The parser of plants, compared with the simple reference in support/bodies.py."""

import json
import re
import tracemalloc

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plantstore.errors import ErrorCode, RequestError
from plantstore.plants import (
    ID_MAX,
    ID_MIN,
    PLANT_BYTES_MAX,
    NewPlant,
    is_too_large,
    parse_new_plant,
    parse_plant,
)
from support.bodies import nearly_valid_bodies, read_plainly


def possible_codes(body: bytes) -> set[ErrorCode]:
    """Return the possible error numbers of a refused body, by the standard library's parser."""

    def refuse(constant: str) -> None:
        raise ValueError(constant)

    try:
        json.loads(body.decode(), parse_constant=refuse)
    except (ValueError, RecursionError):
        # An invalid member before the syntax error may be reported first.
        return {ErrorCode.NOT_JSON, ErrorCode.INVALID_PLANT}
    return {ErrorCode.INVALID_PLANT, ErrorCode.UNSTORABLE_TEXT}


def assert_same_verdict(body: bytes) -> None:
    expected = read_plainly(body)
    if expected is None:
        with pytest.raises(RequestError) as refused:
            parse_new_plant(body)
        assert refused.value.code in possible_codes(body)
        assert refused.value.message
    else:
        assert parse_new_plant(body) == expected


around_bounds = st.integers(ID_MIN - 3, ID_MIN + 3) | st.integers(ID_MAX - 3, ID_MAX + 3)
NUMBER = r"(-|\+|--)?(0|1|10|00|[0-9]{1,25})(\.[0-9]{0,25})?([eE][+-]?([0-5]?[0-9]|007|))?"
number_texts = (
    st.from_regex(re.compile(NUMBER, re.ASCII), fullmatch=True)
    | around_bounds.map(str)
    | around_bounds.map("{}.0".format)
    | st.builds("{}e-{}".format, around_bounds, st.integers(0, 3))
)
texts = st.text() | st.text(st.characters(categories=["Cs", "Cc"]), max_size=3)
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)


bodies = st.one_of(
    nearly_valid_bodies(),
    st.builds('{{"id":{},"name":{}}}'.format, number_texts, texts.map(json.dumps)).map(str.encode),
    st.builds('{{"id":{},"name":"a","id":{}}}'.format, number_texts, number_texts).map(str.encode),
    st.binary(),
    st.text().map(str.encode),
    values.map(json.dumps).map(str.encode),
)


@given(bodies)
@example(b'{"id":1,"name":"a","x":"\xff"}')
@example(b'{"id":1,"name":"a","x":"\\ud800"}')
@example(b'{"id":1,"name":"a","x":NaN}')
@example(b'{"id":1.5,"id":1,"name":"a","name":"b"}')
@example(b'\xef\xbb\xbf{"id":1,"name":"a"}')
@example(b'{"id":1,"x":{"id":2,"name":[null,"\\u0000"]},"name":"a","tags":1}')
@settings(max_examples=300)
def test_the_parser_and_the_reference_agree(body: bytes) -> None:
    assert_same_verdict(body)


@pytest.mark.parametrize(
    ("text", "id_"),
    [
        ("-0", 0),
        ("0e99999999999999999999", 0),
        ("1e0000000000000000000000001", 10),
        ("-92233720368547758080e-1", ID_MIN),
        ("1" + "0" * 100_000 + "e-100000", 1),
        ("0." + "0" * 100_000 + "1e100001", 1),
    ],
)
def test_an_integer_is_read_exactly_however_it_is_written(text: str, id_: int) -> None:
    assert _parse_id(text) == id_


@pytest.mark.parametrize(
    "text",
    [
        *("1.5", '"1"', "true", "null", "[1]", "9223372036854775808", "-9223372036854775809"),
        *("9223372036854775807.0000000000000000000001", "1e999999999", "9" * 100_000),
        *("1e99999999999999999999999999", "1e-99999999999999999999999999"),
    ],
)
def test_the_refusal_of_an_id_that_is_no_int64_quotes_it(text: str) -> None:
    with pytest.raises(RequestError) as refused:
        _parse_id(text)

    assert refused.value.code is ErrorCode.INVALID_PLANT
    assert str(ID_MAX) in refused.value.message
    assert text[:40] in refused.value.message
    assert refused.value.message.startswith("`id` must be an integer from ")
    assert len(refused.value.message) < 200


# By error number: refused bodies, and what the message says of each.
REFUSED: dict[ErrorCode, dict[bytes, str]] = {
    ErrorCode.NOT_JSON: {
        b"\xff": "UTF-8",
        b'{"a":' * 100_000: "deeply",
        b'{"id":' + b"[" * 100_000: "deeply",
        b'{"id":1,"name":"a"': "The text is not JSON: Input data was truncated",
        b'{"id":1,"name":"a"}}': "trailing characters (byte 20)",
        b'{"id":1,"name":"\\ud8","x":"\\ud800"}': "is not JSON",
        b'{"id":1,"name":"a","x":"\\ud800","y":NaN}': "is not JSON",
    },
    ErrorCode.INVALID_PLANT: {
        b"null": "The JSON must be an object, got null",
        b'{"id":[1,\n2],"name":"a"}': "`id` must be an integer",
        b'{"id":1,"name":["a"]}': "`name` must be a string, got an array",
        b'{"id":"plst_abc","name":"a"}': 'got "plst_..."',
        b'{"id":1,"name":"a","tag":null}': "`tag` must be a string, got null; leave it out",
    },
    ErrorCode.UNSTORABLE_TEXT: {
        b'{"id":1,"name":"\\u0000"}': "U+0000",
        b'{"id":1,"name":"a","tag":"b\\u0000"}': "`tag` must not contain U+0000",
        b'{"id":1,"name":"\\ud800"}': "surrogate",
        b'{"id":1,"name":"\\ud83c\\udf31\\ud83c"}': "surrogate",
        b'{"id":1,"name":"\\\\ud800\\ud800"}': "surrogate",
    },
}


@pytest.mark.parametrize(
    ("body", "code", "said"),
    [(body, code, said) for code, bodies in REFUSED.items() for body, said in bodies.items()],
)
def test_the_message_of_a_refused_body_says_what_is_wrong(
    body: bytes, code: ErrorCode, said: str
) -> None:
    with pytest.raises(RequestError) as refused:
        parse_new_plant(body)

    assert refused.value.code is code
    assert said in refused.value.message
    assert len(refused.value.message.splitlines()) == 1, "whatever it quotes"


LARGE = 1024 * 1024


@pytest.mark.parametrize(
    ("head", "filling", "tail"),
    [
        ('{"id":1,"name":"\\ud800","x":[', "[],", "[]]}"),
        ('{"id":1,"name":"', "\\ud800", '"}'),
        ('{"id":1,"name":"\\ud800', "\\\\", '"'),
        ('{"name":"a","id":', "9", "}"),
        ('{"name":"a","id":1.', "0", "1}"),
    ],
)
def test_refusing_a_large_body_takes_less_than_six_times_its_size_in_memory(
    head: str, filling: str, tail: str
) -> None:
    # Memory stands for time here: a body that is slow to parse delays all other requests.
    body = (head + filling * (LARGE // len(filling)) + tail).encode()
    tracemalloc.start()

    try:
        with pytest.raises(RequestError) as refused:
            parse_new_plant(body)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert len(refused.value.message) < 200
    assert peak < 6 * LARGE


def test_a_plant_may_have_16_kib_as_json_and_no_more() -> None:
    tag = "x" * (PLANT_BYTES_MAX - len('{"id":1,"name":"","tag":""}'))

    assert not is_too_large(NewPlant(1, "", tag))
    assert is_too_large(NewPlant(1, "a", tag))


def test_a_tag_that_is_null_is_to_be_left_out_also_without_an_id() -> None:
    with pytest.raises(RequestError, match="`tag` must be a string, got null; leave it out"):
        parse_plant(b'{"name":"a","tag":null}')


def _parse_id(text: str) -> int:
    return parse_new_plant(b'{"id":%s,"name":"a"}' % text.encode()).id
