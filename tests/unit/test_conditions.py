"""Entity tags, and the fields If-Match and If-None-Match (RFC 9110 §8.8.3 and §13.1)."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plantstore.changes import ANY, Precondition, entity_tag, parse_precondition
from plantstore.errors import ErrorCode, RequestError

A, B = entity_tag("a", None), entity_tag("a", "b")
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
plants = st.tuples(texts, st.none() | texts)


def test_an_entity_tag_is_the_begin_of_the_hash_of_name_and_tag() -> None:
    name = hashlib.sha256("Quercus × ålba".encode()).hexdigest()
    both = hashlib.sha256("Quercus × ålba\0é".encode()).hexdigest()

    assert entity_tag("Quercus × ålba", None) == f'"{name[:32]}"'
    assert entity_tag("Quercus × ålba", "é") == f'"{both[:32]}"'
    # The same on every machine and in every version: clients compute it, too.
    assert A == '"ca978112ca1bbdcafac231b39a23dc4d"'


@given(plants, plants)
def test_entity_tags_are_equal_if_and_only_if_the_plants_are(
    one: tuple[str, str | None], another: tuple[str, str | None]
) -> None:
    assert (entity_tag(*one) == entity_tag(*another)) is (one == another)
    assert entity_tag(*one) != entity_tag(one[0] + (one[1] or "x"), None)


@pytest.mark.parametrize(
    ("field", "tags"),
    [
        ("*", ANY),
        (A, {A}),
        (f"{A},{B}", {A, B}),
        (f"{A} \t, \t{B}", {A, B}),
        (f",, {A},\t,{B}, ", {A, B}),
        (f'"", "a,b", "x\xff", {A}', {A}),
        (f'"W/", {A}', {A}),
        # As proxies change an entity tag when they compress.
        (f'W/{A}, "x"', {A}),
        *((f'{A[:-1]}{suffix}"', {A}) for suffix in ("-gzip", "-br", "-zstd", "--gzip")),
        *((f'{A[:-1]}{more}"', set()) for more in ("f", "-", "-0a", "-gzip-br")),
        (f'"{A[2:]}', set()),
        ('"*"', set()),
        *((empty, set()) for empty in ("", " ", ",", "\t,, ")),
    ],
)
def test_a_field_is_any_or_a_list_of_entity_tags(field: str, tags: set[str]) -> None:
    assert parse_precondition(field, None) == Precondition(if_match=frozenset(tags))
    assert parse_precondition(None, field) == Precondition(if_none_match=frozenset(tags))


def test_absent_fields_are_no_condition() -> None:
    assert parse_precondition(None, None) is None


@pytest.mark.parametrize(
    "field",
    [
        *("a", "ca97", '"a', 'a"', '"a" "b"', '"a"b', '"a";', '"a b"', '"a\x7f"'),
        *('w/"a"', 'W/ "a"', "W/", '*, "a"', '"a", *', "*,*", "**", '"\u0100"', "'a'"),
    ],
)
def test_a_malformed_field_is_refused(field: str) -> None:
    for fields, name in (((field, None), "If-Match"), ((None, field), "If-None-Match")):
        with pytest.raises(RequestError, match=f"^{name} must be") as caught:
            parse_precondition(*fields)
        assert caught.value.code is ErrorCode.BAD_REQUEST


@pytest.mark.parametrize(
    ("if_match", "if_none_match", "matches"),
    [
        # For no plant, for A, and for B.
        (None, None, (True, True, True)),
        ("*", None, (False, True, True)),
        (A, None, (False, True, False)),
        (f"{A}, {B}", None, (False, True, True)),
        ('"x"', None, (False, False, False)),
        (f"W/{A}", None, (False, True, False)),
        (None, f'W/"x", W/{A}', (True, False, True)),
        (None, "*", (True, False, False)),
        (None, A, (True, False, True)),
        (None, '"x"', (True, True, True)),
        ("", None, (False, False, False)),
        (None, "", (True, True, True)),
    ],
)
def test_a_condition_is_true_as_rfc_9110_says(
    if_match: str | None, if_none_match: str | None, matches: tuple[bool, ...]
) -> None:
    condition = parse_precondition(if_match, if_none_match) or Precondition()

    found = [condition.matches(etag) and condition.none_matches(etag) for etag in (None, A, B)]

    assert tuple(found) == matches


def test_the_memory_of_a_condition_is_bounded_by_its_characters() -> None:
    short = ",".join(f'"{number:x}"' for number in range(5_000))
    condition = parse_precondition(f"{short},{A}", B)

    assert condition == Precondition(frozenset({A}), frozenset({B}))


@pytest.mark.parametrize("part", ["W/", '"a"  ', ", ", '"', '"a", ', "-", f"{A[:-1]}-"])
def test_the_time_to_refuse_a_field_grows_with_its_length_alone(part: str) -> None:
    with pytest.raises(RequestError):  # with backtracking it would take hours
        parse_precondition(part * 1_000_001 + "x", None)
