"""What becomes of the rows of an import, without a file and without a store."""

import msgspec
import pytest
from msgspec import UNSET

from plantstore.changes import Outcome, PlantOutcome, Result, Swap, Upsert
from plantstore.commit.imports import (
    BATCH_BYTES_MAX,
    Conflict,
    DryRun,
    Import,
    RowBatch,
    RowCounts,
    RowError,
)
from plantstore.errors import BatchRefusedError, ErrorCode, RequestError
from plantstore.formats import FORMATS
from plantstore.formats.json_lines import ChangeLinesParser
from plantstore.plants import NewPlant, Plant


def plain(*ids: int, name: str = "a") -> bytes:
    return FORMATS["jsonl"].render([NewPlant(id_, name) for id_ in ids])


def batches(run: Import, *pieces: bytes) -> list[RowBatch]:
    return [batch for piece in pieces for batch in run.feed(piece)] + run.finish()


# The lines of refused rows, with the numbers of their errors.
Refused = list[tuple[int, int]]


def begun(
    refused: Refused,
    conflict: Conflict = Conflict.REFUSE,
    *,
    batch_rows_max: int = 10,
    errors_max: int = 1_000,
    form: str = "jsonl",
) -> Import:
    return Import(
        FORMATS[form].parser(2 * BATCH_BYTES_MAX),
        conflict,
        lambda error, _text: refused.append((error.line, error.error)),
        batch_rows_max=batch_rows_max,
        errors_max=errors_max,
    )


HALF = BATCH_BYTES_MAX // 2


@pytest.mark.parametrize(
    ("rows_max", "pieces", "lines"),
    [
        (4, [plain(*range(1, 10))], [[1, 2, 3, 4], [5, 6, 7, 8], [9]]),
        (4, [plain(1), plain(2, 3, name="b" * HALF), plain(4, 5)], [[1, 2, 3], [4, 5]]),
        (4, [plain(1, name="c" * 2 * HALF), plain(2)], [[1], [2]]),
        (1_000, [plain(1, name="d" * HALF)] * 5, [[1, 2], [3, 4], [5]]),
    ],
    ids=["rows", "bytes", "bytes of one row", "bytes of rows that arrive one by one"],
)
def test_a_batch_is_bounded_in_rows_and_in_bytes(
    rows_max: int, pieces: list[bytes], lines: list[list[int]]
) -> None:
    made = batches(begun([], batch_rows_max=rows_max), *pieces)

    assert [batch.rows.first_lines for batch in made] == lines
    assert all(batch.changes == batch.rows.items for batch in made)


@pytest.mark.parametrize(
    ("form", "content", "change"),
    [
        ("csv", b"name;id\r\na;1\r\n", Upsert(NewPlant(1, "a"), keeps_tag=True)),
        ("csv", b"id,name,Tag\r\n1,a,\r\n", Upsert(NewPlant(1, "a"))),
        ("jsonl", b'{"id":1,"name":"a"}', Upsert(NewPlant(1, "a"))),
    ],
)
def test_only_a_row_of_csv_without_a_column_of_tags_keeps_the_stored_tag(
    form: str, content: bytes, change: Upsert
) -> None:
    run = begun([], Conflict.REPLACE, form=form)

    [batch] = batches(run, content)

    assert batch.changes == [change]


def test_a_row_that_is_not_valid_is_counted_by_its_lines() -> None:
    errors: list[RowError] = []
    content = b'id,name\n1,"a\nb"\n2,"open\n3,c\n4,"d"\nx,y\n'
    run = Import(
        FORMATS["csv"].parser(),
        Conflict.REFUSE,
        lambda error, _text: errors.append(error),
        batch_rows_max=10,
    )

    [batch] = batches(run, content)
    run.settle(batch, [Outcome.ID_TAKEN])

    assert run.counts == RowCounts(refused=1 + 3 + 1)
    assert [(error.line, error.last_line) for error in errors] == [(2, 3), (4, 6), (7, None)]


@pytest.mark.parametrize(("failing", "last_line"), [(0, 0), (1, 2), (2, 3)])
def test_rows_that_were_stored_one_by_one_before_a_failure_are_counted(
    failing: int, last_line: int
) -> None:
    refused: Refused = []
    run = begun(refused)
    [batch] = batches(run, plain(1) + b"x\n" + plain(3, 4) + b"x\n")
    outcomes: list[Result | RequestError] = [Outcome.STORED, BatchRefusedError("by a trigger")]
    failed = RequestError(ErrorCode.STORE_UNAVAILABLE, "no disk")
    outcomes = [*outcomes[:failing], *[failed] * (3 - failing)]

    with pytest.raises(RequestError):
        run.settle(batch, outcomes)

    assert run.lines_stored_through == last_line
    assert run.counts.stored == min(failing, 1)
    assert [line for line, _ in refused] == [2, 3][: max(last_line - 1, 0)]


@pytest.mark.parametrize(
    ("form", "content", "last"),
    [
        ("csv", b"id,name\n1,a\r\n", 2),
        ("csv", b'id,name\n1,"a\nb\r\nc"\r\n', 4),
        ("jsonl", b'{"id":1,\r"name":"a"}\n', 1),
        ("jsonl", b'\n{"id":1,"name":"a"}\n\n', 2),
    ],
)
def test_a_row_is_stored_through_its_last_line(form: str, content: bytes, last: int) -> None:
    run = begun([], batch_rows_max=1, form=form)
    [batch] = batches(run, content)

    run.settle(batch, [Outcome.STORED])

    assert run.lines_stored_through == last


def changed(errors: list[RowError], shown_bytes_max: int = 0) -> Import:
    """Return an import of a list of changes."""
    return Import(
        ChangeLinesParser(lambda _swap: None),
        Conflict.REFUSE,
        lambda error, _text: errors.append(error),
        shown_bytes_max=shown_bytes_max,
    )


def refused_for(plant: NewPlant | None) -> PlantOutcome:
    return PlantOutcome(Outcome.PRECONDITION_FAILED, plant)


def test_each_outcome_of_a_change_is_counted_and_a_refused_one_says_what_is_stored() -> None:
    errors: list[RowError] = []
    run = changed(errors, shown_bytes_max=1_000)
    lines = [b'{"id":%d,"before":null,"after":{"name":"a"}}\n' % id_ for id_ in range(1, 7)]
    [batch] = batches(run, *lines, b'{"id":7,"before":{"name":"a"},"after":null}\nx\n' * 2)

    run.settle(
        batch,
        [
            *(Outcome.STORED, Outcome.ALREADY_STORED, Outcome.REPLACED, Outcome.DELETED),
            *(Outcome.TOO_LARGE, refused_for(NewPlant(6, "b"))),
            *(refused_for(NewPlant(7, "b", "t")), refused_for(None)),
        ],
    )

    assert batch.changes[:1] == [Swap(1, None, Plant("a"))]
    assert run.counts == RowCounts(1, 1, 1, 0, 6, 1)
    false, said = ErrorCode.PRECONDITION_FAILED, "`before` is not what is stored: "
    assert [each for each in errors if each.plant is not UNSET] == [
        RowError(6, false, f"{said}a plant has the id 6", plant=NewPlant(6, "b")),
        RowError(7, false, f"{said}another plant has the id 7", plant=NewPlant(7, "b", "t")),
        RowError(9, false, f"{said}no plant has the id 7", plant=None),
    ]
    assert [(each.line, each.error) for each in errors if each.plant is UNSET] == [
        *((5, ErrorCode.BODY_TOO_LARGE), (8, ErrorCode.NOT_JSON), (10, ErrorCode.NOT_JSON)),
    ]


def test_a_dry_run_knows_the_last_of_several_changes_with_one_id() -> None:
    dry_run = DryRun(bytes_max=2_000)
    rename = [Upsert(NewPlant(1, name), keeps_tag=False) for name in ("old", "new")]
    others = [NewPlant(id_, "a") for id_ in range(2, 7)]  # so the first change is an older one

    results = [dry_run.decide(batch, {}) for batch in (rename[:1], others, rename[1:], rename[1:])]

    assert results == [
        [Outcome.STORED],
        [Outcome.STORED] * 5,
        [Outcome.REPLACED],
        [Outcome.ALREADY_STORED],
    ]


@pytest.mark.parametrize("is_deleted", [True, False])
def test_a_dry_run_remembers_the_last_changes_and_its_memory_is_bounded(
    *, is_deleted: bool
) -> None:
    dry_run = DryRun(bytes_max=100_000)
    plant, ids = Plant("a" * 100), range(5_000)
    stored = {id_: NewPlant(id_, plant.name) for id_ in ids if is_deleted}
    for id_ in ids:
        dry_run.decide([Swap(id_, msgspec.UNSET, None if is_deleted else plant)], stored.copy())

    before = None if is_deleted else plant
    results = dry_run.decide([Swap(id_, before, Plant("b")) for id_ in ids], stored)

    made = Outcome.STORED if is_deleted else Outcome.REPLACED
    remembered = results.count(made)
    assert results[-remembered:] == [made] * remembered
    assert 100 < remembered < 100_000 / 150
