"""Files of plants: an export can be imported again, and an invalid row is reported by its line."""

import gzip
import json
import tracemalloc
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from plantstore.errors import ErrorCode, OperationError, RequestError
from plantstore.formats import FORMATS
from plantstore.formats.rows import PIECE_BYTES, Item, Rows, readable
from plantstore.plants import ID_MAX, ID_MIN, NewPlant

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
    content: Item | RequestError
    text: str
    last_line: int


def read_all(
    form: str, pieces: list[bytes], row_max: int = ROW_CHARACTERS_MAX
) -> tuple[list[Row], list[str]]:
    """Read a file in pieces; return its rows and its warnings."""
    parser = FORMATS[form].parser(row_max)
    found = Rows()
    for piece in pieces:
        found.extend(parser.feed(piece))
    found.extend(parser.finish())
    rows = [
        Row(first, parser.explain(text) if plant is None else plant, readable(text), last)
        for first, last, plant, text in zip(
            found.first_lines, found.last_lines, found.items, found.texts, strict=True
        )
    ]
    return rows, parser.warnings


def read(
    form: str, content: bytes, piece_bytes: int = PIECE_BYTES, row_max: int = ROW_CHARACTERS_MAX
) -> list[Row]:
    starts = range(0, len(content), piece_bytes)
    return read_all(form, [content[start : start + piece_bytes] for start in starts], row_max)[0]


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


# The page has the same cases.
CASES: list[dict[str, Any]] = json.loads(
    (Path(__file__).parents[1] / "support/csv_cases.json").read_bytes()
)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_csv_is_read_by_the_rules_for_spreadsheets(case: dict[str, Any]) -> None:
    content = case["content"].encode()

    if "error" in case:
        with pytest.raises(OperationError) as refused:
            read("csv", content)
        assert refused.value.message == case["error"]
        return

    rows, warnings = read_all("csv", [content])
    expected = [NewPlant(*values) for values in case["plants"]]
    assert [plant for _, plant in plants_of(rows)] == expected
    refused_rows = [[row.line, row.text] for row in rows if isinstance(row.content, RequestError)]
    assert refused_rows == case.get("refused", [])
    assert warnings == ([case["warning"]] if "warning" in case else [])


@pytest.mark.parametrize("header", [b"name,tag", b'"id', b"identity\0", b"x" * 3_000_000])
def test_a_csv_header_without_the_columns_id_and_name_is_refused(header: bytes) -> None:
    with pytest.raises(OperationError, match="columns id and name"):
        read("csv", header)


# Invalid rows with the numbers of their errors, and a part of each message.
INVALID_CSV = [
    *((row, ErrorCode.INVALID_PLANT, "`id`") for row in (b"x,a,", b",a,", b"1.5,a,")),
    (b"1", ErrorCode.INVALID_PLANT, "The row has 1 cell, but the header has 3"),
    (b'1,"a"b,', ErrorCode.INVALID_PLANT, ""),
    (b'"a""b",a,', ErrorCode.INVALID_PLANT, r'got "a\"b"'),
    (b"9223372036854775808,a,", ErrorCode.INVALID_PLANT, "got 9223372036854775808"),
    (b"007,a,", ErrorCode.INVALID_PLANT, "`id` must have no leading zeros, got 007"),
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
    (
        b'{"id":1,"name":"' + b"a" * (ROW_CHARACTERS_MAX - 18) + b'"}\r\r\rx',
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


@pytest.mark.parametrize(
    ("form", "bad"), [("csv", b"1,\xe4\r\n"), ("jsonl", b'{"id":1,"name":"\xe4"}\n')]
)
def test_rows_that_are_not_utf_8_are_refused_with_one_advice(form: str, bad: bytes) -> None:
    head = b"id,name\r\n" if form == "csv" else b""
    good = head + (b"2,b\n" if form == "csv" else b'{"id":2,"name":"b"}\n')

    [first, *others], warnings = read_all(form, [good + bad * 3])

    assert first.content == NewPlant(2, "b")
    assert len(others) == 3
    assert all("UTF-8" in str(row.content) for row in others)
    assert warnings == [ADVICE]
    assert read_all(form, [good])[1] == []


def test_a_tag_that_is_null_in_json_lines_is_missing() -> None:
    content = (
        b'{"id":1,"name":"a","tag":null}\n{"id":2.0,"tag":null,"name":"b"}\n'
        b'{"id":3,"name":null}\n{"id":4,"name":"d","tag":4}\n'
    )

    rows = read("jsonl", content)

    assert plants_of(rows) == [(1, NewPlant(1, "a")), (2, NewPlant(2, "b"))]
    assert [row.content.message for row in rows if isinstance(row.content, RequestError)] == [
        "`name` must be a string, got null",
        "`tag` must be a string or null, got a number",
    ]


ROWS = {"csv": b"id,name\n1,a\n", "jsonl": b'{"id":1,"name":"a"}\n'}
ARRAY = "a JSON array: write one plant on each line"


@pytest.mark.parametrize(
    ("form", "content", "said"),
    [
        *(
            (form, *each)
            for form in ("csv", "jsonl")
            for each in (
                (gzip.compress(ROWS[form], mtime=0), "compressed with gzip: decompress it first"),
                (b"PK\x03\x04\x14\0\x06\0", "a workbook: save it as CSV UTF-8"),
                (b"\x89PNG\r\n\x1a\n", "not text: import a CSV file, or JSON lines"),
                (ROWS[form].decode().encode("utf-16"), "UTF-16, not UTF-8: save it as UTF-8"),
                (ROWS[form].decode().encode("utf-16-le"), "UTF-16, not UTF-8: save it as UTF-8"),
            )
        ),
        ("jsonl", b'[\n  {"id":1,"name":"a"},\n  {"id":2,"name":"b"}\n]\n', ARRAY),
        ("jsonl", b'\r\n\n [ {"id":1,"name":"a"} ]\n', ARRAY),
    ],
)
def test_a_file_of_another_kind_is_refused_as_a_whole(form: str, content: bytes, said: str) -> None:
    with pytest.raises(OperationError) as refused:
        read(form, content + b"\n1,a\n", piece_bytes=1)

    assert said in refused.value.message


# The parts of files that are cut into pieces. A row has at most ROW_MAX bytes.
ROW_MAX = 50
MARK = b"\xef\xbb\xbf"
PARTS = {
    "jsonl": [
        *(b'{"id":1,"name":"a"}', b'{"id":2,"name":"null"}\r', b'{"id":3.0,"name":"\xc3\x97"}'),
        *(b'{"id":4,"name":"d","tag":null}', b'{"id":5,"name":"\\u0000"}', b'{"id":9,', b"["),
        *(b'{"id":6,"name":"\xff"}', b'{"id":7,"name":"g"} {"id":8,"name":"h"}', b'"name":"i"}'),
        *(b"\n", b"\n", b"\n", b"\r\n", b"\r", b"\r\r\rx", b" ", b"\0", b"\xf0\x9f", MARK),
        *(b'{"id":10,"name":"%b"}' % (b"j" * (ROW_MAX - 19)), b"k" * ROW_MAX, b"l" * ROW_MAX),
    ],
    "csv": [
        *(b"1,a\n", b"2;b;c\r\n", '"3","\u00d7 \U0001f331",d\r'.encode(), b'4,"two\nlines"\n'),
        *(b'5,"open\n', b'"\n', b'"', b'""', b'"x\n', b"6,\xff\n", b"7,\0\r\n", b"8", b"x"),
        *(b",", b";", b"\t", b"\n", b"\r", b"\r\n", b" ", b"\xc2\xa0", b"\xf0\x9f", MARK),
        *(b"9,%b\n" % (b"y" * (ROW_MAX - 3)), b"z" * ROW_MAX, b'"%b\n' % (b"z" * ROW_MAX)),
    ],
}
HEADS = {
    "jsonl": [b"", b"", MARK],
    "csv": [
        *(b"id,name\n", b"id,name,tag\r\n", b"id;name\r", MARK + b" ID \t Name \r\n", b"", b"id"),
        *(MARK * 2 + b'"id","name"\n', b'"x\ny",id,name\n', b'a,"b;id;name\n', b"id,name;\xff\n"),
    ],
}
files = st.sampled_from(["jsonl", "csv"]).flatmap(
    lambda form: st.tuples(
        st.just(form),
        st.builds(
            lambda head, parts: head + b"".join(parts),
            st.sampled_from(HEADS[form]),
            st.lists(st.sampled_from(PARTS[form]), max_size=15),
        ),
    )
)


@given(files)
@example(("csv", b'a,"b;id;name\n1,2",id,name\n3,4,5,6\n'))
@example(("jsonl", b"\n\0{\0}\0"))
@example(("jsonl", MARK + b'{"id":10,"name":"%b"}\r\n' % (b"j" * (ROW_MAX - 19))))
@settings(max_examples=40)
@example(("jsonl", b'{"id":10,"name":"%b"}\r\r\rx\n' % (b"j" * (ROW_MAX - 19))))
def test_the_pieces_in_which_a_file_arrives_change_nothing(file: tuple[str, bytes]) -> None:
    form, content = file

    whole = outcome(form, [content])

    assert outcome(form, [bytes([byte]) for byte in content]) == whole
    for cut in range(1, len(content)):
        assert outcome(form, [content[:cut], content[cut:]]) == whole


def outcome(form: str, pieces: list[bytes]) -> str:
    """Return the rows of a file and its warnings, or its error."""
    try:
        return repr(read_all(form, pieces, ROW_MAX))
    except OperationError as error:
        return error.message


@pytest.mark.parametrize(
    ("form", "content"),
    [
        ("csv", b'id,name,tag\n1,"' + (b"no end" * 100 + b"\n") * 10_000),
        ("csv", b'id,name,tag\n1,"' + (b'","x' * 100 + b'","\n') * 15_000),
        ("csv", b"id,name,tag\n" + b"," * 6_000_000),
        ("jsonl", b" " * 6_000_000),
    ],
    ids=["open quote", "open row", "open line", "open json"],
)
def test_a_row_without_an_end_takes_a_limited_amount_of_memory(form: str, content: bytes) -> None:
    row_max = 64 * 1024
    parser = FORMATS[form].parser(row_max)
    found: set[Item | None] = set()
    tracemalloc.start()
    try:
        for start in range(0, len(content), PIECE_BYTES):
            found.update(parser.feed(content[start : start + PIECE_BYTES]).items)
        found.update(parser.finish().items)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()

    assert found == {None}
    assert peak < 40 * row_max
