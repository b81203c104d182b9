"""What becomes of the rows of an import, without a file and without a store."""

import io

import pytest

from plantstore.changes import BATCH_CHARACTERS_MAX, Outcome, Upsert
from plantstore.errors import BatchRefusedError, ErrorCode, RequestError
from plantstore.formats import FORMATS
from plantstore.formats.rows import Row
from plantstore.imports import Conflict, Import, ImportResult, RowCounts, RowError
from plantstore.plants import NewPlant

BAD = RequestError(ErrorCode.INVALID_PLANT, "bad")


def plain(line: int, name: str = "a") -> Row:
    return Row(line, NewPlant(line, name), name)


class Refused:
    """The rows that an import refused, with the numbers of their errors."""

    def __init__(self) -> None:
        self.rows: list[tuple[int, int]] = []

    def add(self, error: RowError, _row: Row) -> None:
        self.rows.append((error.line, error.error))


def test_a_batch_is_bounded_in_rows_and_in_characters() -> None:
    names = ["a"] * 9 + ["b" * (BATCH_CHARACTERS_MAX // 2)] * 2 + ["c" * BATCH_CHARACTERS_MAX, "d"]
    rows = [plain(line, name) for line, name in enumerate(names)]

    made = list(Import(Conflict.REFUSE, Refused().add, batch_plants_max=4).batches(rows))

    assert [len(batch.rows) for batch in made] == [4, 4, 3, 1, 1]
    assert [row for batch in made for row in batch.rows] == rows
    assert [change for batch in made for change in batch.changes] == [row.content for row in rows]


def test_rows_that_are_not_valid_are_refused_and_are_in_no_batch() -> None:
    refused = Refused()
    run = Import(Conflict.REPLACE, refused.add, batch_plants_max=10)

    [batch] = run.batches([plain(1), Row(2, BAD, "x"), plain(3)])

    assert batch.changes == [Upsert(NewPlant(1, "a")), Upsert(NewPlant(3, "a"))]
    assert refused.rows == [(2, ErrorCode.INVALID_PLANT)]
    assert run.counts == RowCounts(refused=1)


@pytest.mark.parametrize("conflict", Conflict)
def test_each_outcome_is_counted(conflict: Conflict) -> None:
    refused = Refused()
    run = Import(conflict, refused.add, batch_plants_max=10)
    [batch] = run.batches(plain(line) for line in range(1, 6))

    run.settle(
        batch,
        [
            Outcome.STORED,
            Outcome.ALREADY_STORED,
            Outcome.REPLACED,
            Outcome.ID_TAKEN,
            BatchRefusedError("refused by a trigger"),
        ],
    )

    is_skipped = conflict is Conflict.SKIP
    assert run.counts == RowCounts(1, 1, 1, int(is_skipped), 2 - is_skipped)
    taken = [] if is_skipped else [(4, ErrorCode.ID_TAKEN)]
    assert refused.rows == [*taken, (5, ErrorCode.STORE_UNAVAILABLE)]


def test_a_batch_that_was_not_stored_is_an_error_and_the_lines_before_it_stay_stored() -> None:
    run = Import(Conflict.REFUSE, Refused().add, batch_plants_max=1)
    failed = RequestError(ErrorCode.STORE_UNAVAILABLE, "no disk")
    first, second = run.batches([plain(1), plain(2)])
    run.settle(first, [Outcome.STORED])

    with pytest.raises(RequestError) as raised:
        run.settle(second, [failed])

    assert raised.value is not failed  # each caller sets lines_stored_through of its own
    assert run.lines_stored_through == 1


@pytest.mark.parametrize(
    ("form", "content", "last"),
    [
        ("csv", b"id,name\n1,a", 2),
        ("csv", b"id,name\n1,a\r\n", 2),
        ("csv", b'id,name\n1,"a\nb\r\nc"\r\n', 4),
        ("csv", b'id,name\r1,"a\rb"\r', 3),
        ("jsonl", b'{"id":1,\r"name":"a"}\n', 1),
        ("jsonl", b'\n{"id":1,"name":"a"}\n\n', 2),
    ],
)
def test_a_row_is_stored_through_its_last_line(form: str, content: bytes, last: int) -> None:
    run = Import(Conflict.REFUSE, Refused().add, batch_plants_max=1)
    [batch] = run.batches(FORMATS[form].read(io.BufferedReader(io.BytesIO(content)), 1000, print))

    run.settle(batch, [Outcome.STORED])

    assert run.lines_stored_through == last


def test_the_result_of_a_service_is_added_with_the_lines_of_the_file() -> None:
    refused = Refused()
    run = Import(Conflict.REFUSE, refused.add, batch_plants_max=10)
    first = ImportResult(stored=1, refused=1, errors=[RowError(2, 1004, "taken")])

    run.add_result([plain(7), plain(9)], first)
    run.add_result([plain(11)], ImportResult(already_stored=1))

    assert run.counts == RowCounts(stored=1, already_stored=1, refused=1)
    assert refused.rows == [(9, 1004)]
