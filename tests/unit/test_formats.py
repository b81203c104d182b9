"""Files of plants: an export can be imported again, and an invalid row is reported by its line."""

import tracemalloc
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from plantstore.errors import ErrorCode, OperationError, RequestError
from plantstore.formats import FORMATS
from plantstore.formats.rows import PIECE_BYTES, Rows, readable
from plantstore.plants import ID_MAX, ID_MIN, NewPlant
from support.csv_cases import CSV_CASES, Case

ROW_CHARACTERS_MAX = 1024 * 1024

ADVICE = "A part of the file is not UTF-8: save it as UTF-8, in a spreadsheet as CSV UTF-8"

texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]))
awkward = st.sampled_from(
    ["", '"', '""', ",", "\n", "\r", "\r\n", "a\rb", " a ", "×", "🌱", "\ufeff", "\u2028", "=1+1"]
)
names = texts | awkward
plants = st.builds(NewPlant, st.integers(ID_MIN, ID_MAX), names, st.none() | names)
of_csv = st.builds(NewPlant, st.integers(ID_MIN, ID_MAX), names, st.none() | names.filter(bool))


class Row(NamedTuple):
    """A row with its first line, its plant or its error, its text, and its last line."""

    line: int
    content: NewPlant | RequestError
    text: str
    last_line: int


def read(
    form: str,
    content: bytes,
    warnings: list[str] | None = None,
    *,
    piece_bytes: int = PIECE_BYTES,
    row_max: int = ROW_CHARACTERS_MAX,
) -> list[Row]:
    parser = FORMATS[form].parser(row_max)
    rows = Rows()
    for start in range(0, len(content), piece_bytes):
        rows.extend(parser.feed(content[start : start + piece_bytes]))
    rows.extend(parser.finish())
    if warnings is not None:
        warnings += parser.warnings
    return [
        Row(first, parser.explain(text) if plant is None else plant, readable(text), last)
        for first, last, plant, text in zip(
            rows.first_lines, rows.last_lines, rows.plants, rows.texts, strict=True
        )
    ]


def plants_of(rows: list[Row]) -> list[tuple[int, NewPlant]]:
    return [(row.line, row.content) for row in rows if isinstance(row.content, NewPlant)]


def errors(rows: list[Row]) -> list[tuple[int, ErrorCode]]:
    return [(row.line, row.content.code) for row in rows if isinstance(row.content, RequestError)]


def written(form: str, some: list[NewPlant]) -> bytes:
    return FORMATS[form].head + FORMATS[form].render(some)


@given(st.lists(plants), st.lists(of_csv))
def test_every_plant_can_be_written_and_read_except_an_empty_tag_in_csv(
    any_: list[NewPlant], without_empty_tags: list[NewPlant]
) -> None:
    for form, some in (("jsonl", any_), ("csv", without_empty_tags)):
        assert [plant for _, plant in plants_of(read(form, written(form, some)))] == some


def test_csv_refuses_an_empty_tag_and_names_the_plant() -> None:
    with pytest.raises(OperationError, match="plant 7"):
        FORMATS["csv"].render([NewPlant(1, "a"), NewPlant(7, "b", "")])


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"tag,price,name,id\nt,9,a,1\n", [NewPlant(1, "a", "t")]),
        (b"id,name\r1,a", [NewPlant(1, "a")]),
        (b'id,name,tag\n2,b,""\n3,,c\n', [NewPlant(2, "b"), NewPlant(3, "", "c")]),
    ],
)
def test_csv_columns_may_be_in_any_order_and_lines_end_as_on_any_system_and_cells_may_be_empty(
    content: bytes, expected: list[NewPlant]
) -> None:
    assert [plant for _, plant in plants_of(read("csv", content))] == expected


@pytest.mark.parametrize("case", CSV_CASES, ids=lambda case: case.name)
def test_csv_is_read_by_the_rules_for_spreadsheets(case: Case) -> None:
    warnings: list[str] = []

    if case.error:
        with pytest.raises(OperationError) as refused:
            read("csv", case.content, warnings)
        rows = []
    else:
        rows = read("csv", case.content, warnings)

    assert [plant for _, plant in plants_of(rows)] == case.plants
    refused_rows = [(row.line, row.text) for row in rows if isinstance(row.content, RequestError)]
    assert refused_rows == case.refused
    assert warnings == ([case.warning] if case.warning else [])
    assert not case.error or refused.value.message == case.error


@pytest.mark.parametrize(
    "header", [b"", b"id", b"name,tag", b"id,name,id", b'"id', b"names\0", b"x" * 3_000_000]
)
def test_a_csv_header_without_the_columns_id_and_name_is_refused(header: bytes) -> None:
    with pytest.raises(OperationError, match=r"columns id and name|empty"):
        read("csv", header)


# Invalid rows with the numbers of their errors, and a part of each message.
INVALID_CSV = [
    *((row, ErrorCode.INVALID_PLANT, "`id`") for row in (b"x,a,", b",a,", b"1.5,a,")),
    (b"1,a", ErrorCode.INVALID_PLANT, "The row has 2 cells, but the header has 3"),
    (b"1", ErrorCode.INVALID_PLANT, "The row has 1 cell, but the header has 3"),
    (b"1,a,b,c", ErrorCode.INVALID_PLANT, "The row has 4 cells, but the header has 3"),
    (b'1,"a"b,', ErrorCode.INVALID_PLANT, ""),
    (b"abc,a,", ErrorCode.INVALID_PLANT, 'got "abc"'),
    (b'"a""b",a,', ErrorCode.INVALID_PLANT, r'got "a\"b"'),
    (b"9223372036854775808,a,", ErrorCode.INVALID_PLANT, "got 9223372036854775808"),
    (b"007,a,", ErrorCode.INVALID_PLANT, "got 007"),
    (b"7x,a,", ErrorCode.INVALID_PLANT, 'got "7x"'),
    *((row, ErrorCode.UNSTORABLE_TEXT, "") for row in (b"1,\0,", b"1,a,\0", b"1,\xff,")),
    *((row, ErrorCode.UNSTORABLE_TEXT, "") for row in (b"1,\xed\xa0\x80,", b"\xff,a,")),
    (b"1," + b"a" * ROW_CHARACTERS_MAX + b",", ErrorCode.BODY_TOO_LARGE, ""),
]
INVALID_JSON = [
    *((row, ErrorCode.NOT_JSON, "") for row in (b"{", b"\xff")),
    (b'{"id": 1}', ErrorCode.INVALID_PLANT, "`name`"),
    (b'{"id": 1, "name": "\\u0000"}', ErrorCode.UNSTORABLE_TEXT, "U+0000"),
    (
        b'{"id": 1, "name": "' + b"a" * ROW_CHARACTERS_MAX + b'"}',
        *(ErrorCode.BODY_TOO_LARGE, ""),
    ),
]


@pytest.mark.parametrize(
    ("form", "row", "code", "said"),
    [
        *(("csv", *each) for each in INVALID_CSV),
        *(("jsonl", *each) for each in INVALID_JSON),
    ],
)
def test_an_invalid_row_is_reported_by_its_line_and_the_next_row_is_read(
    form: str, row: bytes, code: ErrorCode, said: str
) -> None:
    first, last, before = {
        "csv": (b'id,name,tag\n0,"two\nlines",\n\n', b"2,b,", [(2, NewPlant(0, "two\nlines"))]),
        "jsonl": (b"\xef\xbb\xbf \r\n\n\n\n", b'{"id": 2, "name": "b", "more": null}', []),
    }[form]

    rows = read(form, first + row + b"\n" + last)

    [refused] = [each.content for each in rows if isinstance(each.content, RequestError)]
    assert errors(rows) == [(5, code)]
    assert said in refused.message
    assert plants_of(rows) == [*before, (6, NewPlant(2, "b"))]
    assert rows[-1].text.rstrip() == last.decode()


@pytest.mark.parametrize("rows", [5, 150_000])
def test_an_unclosed_quote_invalidates_only_its_own_row(rows: int) -> None:
    """Whether the file ends inside the quote, or the row gets too large."""
    good = [NewPlant(id_, "b") for id_ in range(rows)]
    content = b'id,name,tag\n1,"oops,\n' + FORMATS["csv"].render(good)

    first, *others = read("csv", content)

    assert errors([first]) in ([(2, ErrorCode.INVALID_PLANT)], [(2, ErrorCode.BODY_TOO_LARGE)])
    assert first.text == '1,"oops,\n'
    assert plants_of(others) == list(enumerate(good, 3))


@pytest.mark.parametrize(
    "id_", ["1E5", "4.02E+12", "40201.0", "-1e3", "1.5", "4,02E+12", "1.", "4.0201e+10"]
)
def test_an_id_that_a_spreadsheet_may_have_rounded_is_refused_in_csv_alone(id_: str) -> None:
    [row] = read("csv", f"id;name\n{id_};a\n".encode())
    of_json = read("jsonl", b'{"id":1E5,"name":"a"}\n{"id":40201.0,"name":"b"}\n')

    assert isinstance(row.content, RequestError)
    assert row.content.code is ErrorCode.INVALID_PLANT
    assert "format the column as a number without decimals" in row.content.message
    assert plants_of(of_json) == [(1, NewPlant(100_000, "a")), (2, NewPlant(40_201, "b"))]


@pytest.mark.parametrize("form", ["csv", "jsonl"])
@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("piece_bytes", [1, 3, PIECE_BYTES])
def test_a_file_in_utf_16_is_refused_as_a_whole(form: str, encoding: str, piece_bytes: int) -> None:
    content = written(form, [NewPlant(1, "a"), NewPlant(2, "b")]).decode().encode(encoding)

    with pytest.raises(OperationError, match="UTF-16, not UTF-8: save it as UTF-8"):
        read(form, content, piece_bytes=piece_bytes)


@pytest.mark.parametrize(
    ("form", "bad"), [("csv", b"1,\xe4\r\n"), ("jsonl", b'{"id":1,"name":"\xe4"}\n')]
)
def test_rows_that_are_not_utf_8_are_refused_with_one_advice(form: str, bad: bytes) -> None:
    head = b"id,name\r\n" if form == "csv" else b""
    good = head + (b"2,b\n" if form == "csv" else b'{"id":2,"name":"b"}\n')
    warnings: list[str] = []
    parser = FORMATS[form].parser()

    rows = parser.feed(good + bad * 3)
    reasons = [parser.explain(text) for text in rows.texts[1:]]
    read(form, good, warnings)

    assert rows.plants == [NewPlant(2, "b"), None, None, None]
    assert all("UTF-8" in reason.message for reason in reasons)
    assert parser.warnings == [ADVICE]
    assert warnings == []


def test_the_name_of_a_column_may_be_no_utf_8() -> None:
    warnings: list[str] = []

    rows = read("csv", b"id;name;Gr\xf6\xdfe\r\n1;a;\xe4\r\n2;b;c\r\n", warnings)

    ignored = 'Column "Gr\ufffd\ufffde" is ignored; known columns are id, name and tag'
    assert warnings == [ignored, ADVICE]
    assert plants_of(rows) == [(2, NewPlant(1, "a")), (3, NewPlant(2, "b"))]


JSON_LINES = [
    *(
        b'{"id":1,"name":"a"}\n',
        b'{"id":2,"name":"null","tag":"b"}\r\n',
        b'{"id":3.0,"name":"c"}\n',
    ),
    *(b'{"id":4,"name":"d","tag":null}\n', b'{"id":5,"name":"\\u0000"}\n', b'{"id":9,\n'),
    *(b'{"id":6,"name":"f","x":"\xff"}\n', b'{"id":7,"name":"g"} {"id":8,"name":"h"}\n'),
    *(b'"name":"i"}\n', b'{"id":10,"name":"%b"}\n' % (b"j" * 200), b" \n"),
]
CSV_LINES = [
    *(b"1,a\n", '2,"\u00d7 \U0001f331",b\r\n'.encode(), b'3,"two\nlines"\r', b'4,"open\n'),
    *(b'5,"closed"x\n', b'"\n', b"6,\xff\n", b"7,\0\r\n", b"\n", b"x\r"),
    *(b"8,%b\n" % (b"y" * 60), b"9,%b\r" % (b"z" * 60)),
]


@given(st.lists(st.sampled_from(JSON_LINES)), st.integers(1, 1_000))
def test_the_rows_of_json_lines_do_not_depend_on_the_pieces(lines: list[bytes], size: int) -> None:
    rows = read("jsonl", b"".join(lines), piece_bytes=size, row_max=100)

    alone = [
        row._replace(line=number, last_line=number)
        for number, line in enumerate(lines, 1)
        for row in read("jsonl", line, row_max=100)
    ]
    assert described(rows) == described(alone)


@given(st.lists(st.sampled_from(CSV_LINES)), st.integers(1, 100))
def test_the_rows_of_csv_do_not_depend_on_the_pieces(lines: list[bytes], size: int) -> None:
    content = b"\xef\xbb\xbfid,name\r\n" + b"".join(lines)

    rows = read("csv", content, piece_bytes=size, row_max=50)

    assert described(rows) == described(read("csv", content, row_max=50))
    assert all(row.line <= row.last_line for row in rows)


@pytest.mark.parametrize("end", [b"\r", b"\n", b"\r\n"])
def test_the_row_after_one_that_is_too_large_is_read_wherever_a_piece_ends(end: bytes) -> None:
    content = end.join([b"id,name", b"1," + b"x" * 60, b"2,b", b"3,c", b""])

    for size in range(1, len(content) + 1):
        rows = read("csv", content, piece_bytes=size, row_max=50)

        assert errors(rows) == [(2, ErrorCode.BODY_TOO_LARGE)]
        assert plants_of(rows) == [(3, NewPlant(2, "b")), (4, NewPlant(3, "c"))]


def described(rows: list[Row]) -> list[tuple[int, str, str, int]]:
    return [(row.line, repr(row.content), row.text, row.last_line) for row in rows]


def test_lines_that_each_open_a_quote_are_read_again_a_limited_number_of_times() -> None:
    """Each row is refused only when it has its maximum size, so its lines are read again."""
    lines = 10_000
    content = b"id,name\n" + b'a","c\n' * lines + b"x,y\n"

    rows = read("csv", content, row_max=1_000)

    assert {type(row.content) for row in rows} == {RequestError}
    assert "".join(row.text for row in rows).encode() == content.removeprefix(b"id,name\n")
    assert len(rows) < lines / 10


@pytest.mark.parametrize("line", ["x" * (ROW_CHARACTERS_MAX - 1) + "\n", "y" * 3_000_000 + "\n"])
def test_a_line_that_is_too_long_after_an_unclosed_quote_is_one_invalid_row(line: str) -> None:
    content = f'id,name,tag\n1,"oops,\n{line}2,b,\n'.encode()

    rows = read("csv", content)

    assert [number for number, _ in errors(rows)] == [2, 3]
    assert plants_of(rows) == [(4, NewPlant(2, "b"))]


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", b'id,name,tag\n1,"' + (b"no end" * 1000 + b"\n") * 5000),
        ("csv", b'id,name,tag\n1,"' + (b'","x' * 1000 + b'","\n') * 7000),
        ("csv", b"id,name,tag\n" + b"," * 30_000_000),
        ("jsonl", b" " * 30_000_000),
    ],
    ids=["open quote", "open row", "open line", "open json"],
)
def test_a_row_without_an_end_takes_a_limited_amount_of_memory(form: str, content: bytes) -> None:
    parser = FORMATS[form].parser(ROW_CHARACTERS_MAX)
    found = Rows()
    tracemalloc.start()
    try:
        for start in range(0, len(content), PIECE_BYTES):
            found.plants += parser.feed(content[start : start + PIECE_BYTES]).plants
        found.plants += parser.finish().plants
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert set(found.plants) == {None}
    assert peak < 40 * ROW_CHARACTERS_MAX
