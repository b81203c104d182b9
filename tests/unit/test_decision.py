"""Changes: their conditions (RFC 9110 §8.8.3 and §13.1), and what a batch of them does."""

import hashlib

import msgspec
import pytest

from plantstore.changes import (
    ANY,
    AllInSet,
    Change,
    Conditional,
    Deletion,
    InSet,
    Outcome,
    Patch,
    PlantOutcome,
    Precondition,
    Replacement,
    Result,
    Swap,
    UnconditionalChange,
    Upsert,
    entity_tag,
    parse_precondition,
)
from plantstore.decision import Difference, decide
from plantstore.errors import ErrorCode, RequestError
from plantstore.feed import Kind, Made
from plantstore.plants import PLANT_BYTES_MAX, NewPlant, Plant, PlantPatch

# Entity tags, and the fields If-Match and If-None-Match.

A, B = entity_tag("a", None), entity_tag("a", "b")


def test_an_entity_tag_is_the_beginning_of_the_hash_of_name_and_tag() -> None:
    name = hashlib.sha256("Quercus × ålba".encode()).hexdigest()
    both = hashlib.sha256("Quercus × ålba\0é".encode()).hexdigest()

    assert entity_tag("Quercus × ålba", None) == f'"{name[:32]}"'
    assert entity_tag("Quercus × ålba", "é") == f'"{both[:32]}"'
    # The same on every machine and in every version: clients compute it, too.
    assert A == '"ca978112ca1bbdcafac231b39a23dc4d"'


@pytest.mark.parametrize(
    ("field", "tags"),
    [
        ("*", ANY),
        (A, {A}),
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
        (None, f'W/"x", W/{A}', (True, False, True)),
        (None, "*", (True, False, False)),
        (None, A, (True, False, True)),
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
        parse_precondition(part * 100_001 + "x", None)


# What a batch of changes does.


def test_a_part_of_a_batch_in_a_set_is_in_the_set() -> None:
    one, two, three = map(Deletion, range(3))
    batch = AllInSet([one, two, three], "a")

    assert (batch[0], [*batch[1:]]) == (InSet(one, "a"), [InSet(two, "a"), InSet(three, "a")])
    assert isinstance(batch[1:], AllInSet)


CREATED, REPLACED, DELETED = Kind


def test_the_difference_lists_new_changed_and_deleted_plants() -> None:
    stored = {id_: NewPlant(id_, "old") for id_ in range(1, 6)}
    changes: list[Change] = [
        *(
            NewPlant(1, "old"),
            Replacement(1, Plant("old")),
            NewPlant(2, "other"),
            Replacement(3, Plant("new")),
            Deletion(4),
        ),
        *(Deletion(5), NewPlant(5, "again"), NewPlant(6, "a"), Replacement(6, Plant("b"))),
        *(NewPlant(7, "a"), Deletion(7), NewPlant(8, "a"), Deletion(8), NewPlant(8, "c")),
        *(Replacement(9, Plant("a")), Deletion(9)),
    ]

    _, difference = decide(changes, stored)

    assert difference == Difference(
        new=[NewPlant(6, "b"), NewPlant(8, "c")],
        changed=[NewPlant(3, "new"), NewPlant(5, "again")],
        deleted=[4],
        made=[
            Made(*change)
            for change in (
                *((REPLACED, 3, "new", None), (DELETED, 4, None, None), (DELETED, 5, None, None)),
                *((CREATED, 5, "again", None), (CREATED, 6, "a", None), (REPLACED, 6, "b", None)),
                *((CREATED, 8, "a", None), (DELETED, 8, None, None), (CREATED, 8, "c", None)),
            )
        ],
    )


LARGE = "x" * PLANT_BYTES_MAX


@pytest.mark.parametrize(
    "change",
    [
        Patch(1, PlantPatch(tag=LARGE)),
        Replacement(1, Plant(LARGE)),
        Upsert(NewPlant(1, LARGE)),
        Upsert(NewPlant(1, LARGE), keeps_tag=True),
    ],
)
@pytest.mark.parametrize(
    ("condition", "is_true"),
    [
        (Precondition(if_match=ANY), True),
        (Precondition(if_match=frozenset({'"other"'})), False),
        (Precondition(if_none_match=ANY), False),
    ],
)
def test_a_plant_that_would_be_too_large_is_refused_after_its_condition_is_evaluated(
    change: UnconditionalChange,
    condition: Precondition,
    is_true: bool,  # noqa: FBT001
) -> None:
    before = NewPlant(1, "a")

    results, difference = decide([change, Conditional(change, condition)], {1: before})

    failed = PlantOutcome(Outcome.PRECONDITION_FAILED, before)
    assert results == [Outcome.TOO_LARGE, Outcome.TOO_LARGE if is_true else failed]
    assert difference == Difference([], [], [], [])


FAILED, DONE, MADE = Outcome.PRECONDITION_FAILED, Outcome.ALREADY_STORED, Outcome.STORED
GONE, NEW = Outcome.DELETED, Outcome.REPLACED
PLAIN, TAGGED = Plant("a"), Plant("a", "t")


@pytest.mark.parametrize(
    ("before", "after", "outcomes"),
    [
        # For no plant, for PLAIN, and for TAGGED.
        (msgspec.UNSET, None, (DONE, GONE, GONE)),
        (msgspec.UNSET, PLAIN, (MADE, DONE, NEW)),
        (None, None, (DONE, FAILED, FAILED)),
        (None, PLAIN, (MADE, DONE, FAILED)),
        (PLAIN, None, (DONE, GONE, FAILED)),
        (PLAIN, PLAIN, (FAILED, DONE, FAILED)),
        (PLAIN, TAGGED, (FAILED, NEW, DONE)),
    ],
)
def test_a_swap_does_what_its_definition_says(
    before: Plant | msgspec.UnsetType | None, after: Plant | None, outcomes: tuple[Outcome, ...]
) -> None:
    for present, outcome in zip((None, PLAIN, TAGGED), outcomes, strict=True):
        stored = {1: NewPlant(1, present.name, present.tag)} if present else {}
        old = stored.get(1)

        [result], difference = decide([Swap(1, before, after)], stored)

        assert result == (PlantOutcome(FAILED, old) if outcome is FAILED else outcome)
        wanted = present if outcome is FAILED else after
        assert stored == ({1: NewPlant(1, wanted.name, wanted.tag)} if wanted else {})
        assert len(difference.made) == (outcome in (MADE, GONE, NEW))


def test_an_upsert_that_keeps_the_tag_keeps_that_of_an_earlier_change() -> None:
    large = NewPlant(3, "×", "u" * 10_000)
    stored = {1: NewPlant(1, "a", "s"), 2: NewPlant(2, "b", "t"), 3: large}
    steps: list[tuple[Change, Result]] = [
        (Upsert(NewPlant(1, "c"), keeps_tag=True), Outcome.REPLACED),
        (Upsert(NewPlant(1, "c"), keeps_tag=True), Outcome.ALREADY_STORED),
        (Upsert(NewPlant(2, "c")), Outcome.REPLACED),
        (Upsert(NewPlant(2, "d"), keeps_tag=True), Outcome.REPLACED),
        (Upsert(NewPlant(4, "c"), keeps_tag=True), Outcome.STORED),
        (Upsert(NewPlant(3, "x" * 10_000), keeps_tag=True), Outcome.TOO_LARGE),
    ]

    results, _ = decide([change for change, _ in steps], stored)

    assert results == [result for _, result in steps]
    assert [*stored.values()] == [NewPlant(1, "c", "s"), NewPlant(2, "d"), large, NewPlant(4, "c")]


SAME = NewPlant(1, "a", "t")
IF_OLD = Precondition(if_match=frozenset({entity_tag("old", None)}))
REFUSED = PlantOutcome(Outcome.PRECONDITION_FAILED, SAME)


@pytest.mark.parametrize(
    ("change", "condition", "result"),
    [
        (Replacement(1, Plant("a", "t")), IF_OLD, Outcome.REPLACED),
        (Upsert(SAME), IF_OLD, Outcome.ALREADY_STORED),
        (Patch(1, PlantPatch("a")), IF_OLD, PlantOutcome(Outcome.ALREADY_STORED, SAME)),
        (Deletion(1), IF_OLD, REFUSED),
        (Upsert(SAME), Precondition(if_none_match=ANY), REFUSED),
        (Patch(1, PlantPatch("a")), Precondition(IF_OLD.if_match, ANY), REFUSED),
    ],
)
def test_a_change_that_is_made_already_needs_no_if_match_unless_it_is_a_deletion(
    change: UnconditionalChange, condition: Precondition, result: Result
) -> None:
    stored = {1: SAME}

    assert decide([Conditional(change, condition)], stored)[0] == [result]
    assert stored == {1: SAME}
