"""The rows that an import on the page refuses, in a real browser: the table and the saved file."""

import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, BrowserContext, Page, expect

from plantstore.changes import Deletion
from support.browser import Watch, drop, enter, listed_errors, save
from support.csv_cases import CSV_CASES, Case
from support.service import Service, stored_plants


@pytest.fixture(scope="module")
def garden(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[tuple[Service, Page]]:
    """Return a service and its page, shared by many imports."""
    watch = Watch()
    with Service(tmp_path_factory.mktemp("garden")) as service, browser.new_page() as page:
        watch.watch(page)
        enter(page, service, service.token())
        yield service, page
        watch.assert_quiet()


def read(content: bytes) -> list[dict[str, str]]:
    """Return the rows of a file of refused rows."""
    return list(csv.DictReader(io.StringIO(content.decode("utf-8-sig"), newline="")))


@pytest.mark.parametrize(
    "case", [case for case in CSV_CASES if case.refused], ids=lambda case: case.name
)
def test_the_refused_rows_are_saved_with_their_lines_for_a_spreadsheet(
    garden: tuple[Service, Page], case: Case
) -> None:
    service, page = garden
    service.change(*[Deletion(id_) for id_ in stored_plants(service.database)])

    drop(page, case.content, name="my.plants.csv")
    expect(page.get_by_text("Import finished")).to_be_visible()
    name, content = save(page, "link", "Save the refused rows")

    assert name == "my.plants-refused.csv"
    assert content.startswith('\ufeff"line","error","message","row"\r\n'.encode())
    saved = read(content)
    first_lines = [(line, text.splitlines()[0]) for line, text in case.refused]
    assert [(int(row["line"]), row["row"].replace("'", "")) for row in saved] == first_lines
    assert stored_plants(service.database) == {plant.id: plant for plant in case.plants}


@pytest.mark.parametrize("separator", [",", ";", "\t"])
def test_no_cell_of_the_saved_rows_is_a_formula_for_a_spreadsheet(
    page: Page, separator: str
) -> None:
    formulas = ["=cmd|' /C calc'!A0", "+1", "-1", "@SUM(1)", '"=1"', "\uff1d1", "' =1"]
    lines = [f"{each};{each},{each}\t{each}" for each in formulas]

    drop(page, "\n".join(["id;name;a;b;c", *lines]).encode())
    expect(page.get_by_text("Import finished: 0 stored, 7 refused.")).to_be_visible()
    _, content = save(page, "link", "Save the refused rows")

    text = io.StringIO(content.decode("utf-8-sig"), newline="")
    cells = [cell for row in csv.reader(text, delimiter=separator) for cell in row]
    assert len(cells) > len(formulas)
    assert not [cell for cell in cells if re.match('["\\s]*[-=+@\uff1d]', cell)]
    assert [row[2] for row in listed_errors(page)] == lines


def test_the_first_thousand_refused_rows_are_listed_and_all_are_counted(page: Page) -> None:
    drop(page, b"id,name\n" + b"none,Abies\nrow\r" * 600 + b"1,Abies\n")

    result = "Import finished: 1 stored, 1,200 refused."
    expect(page.locator("#import-said")).to_have_text(result)
    shown = "These are the first 1,000 of the 1,200 refused rows."
    expect(page.locator("#import-shown")).to_contain_text(shown)
    assert [row[0] for row in listed_errors(page)][-2:] == ["1,000", "1,001"]
    saved = read(save(page, "link", "Save the refused rows")[1])
    assert [int(row["line"]) for row in saved] == list(range(2, 1_002))
    assert [row["row"] for row in saved] == ["none,Abies", "row"] * 500


def test_a_large_refused_row_is_shown_in_part(context: BrowserContext, tmp_path: Path) -> None:
    with Service(tmp_path) as service:
        page = context.new_page()
        enter(page, service, service.token())

        drop(page, b"id,name\r\n1," + "🌱".encode() * 500_000 + b"\r\n2,B\r\n,C")

        result = "Import finished: 1 stored, 2 refused."
        expect(page.locator("#import-said")).to_have_text(result)
        [large, last] = listed_errors(page)
        assert large[1].startswith("The row is larger than")
        assert large[2] == f"1,{'🌱' * 498}…"
        assert (last[0], last[2]) == ("4", ",C")


def test_on_a_phone_a_list_of_refused_rows_is_not_wider_than_the_screen(
    context: BrowserContext, service: Service
) -> None:
    page = context.new_page()
    page.set_viewport_size({"width": 320, "height": 640})
    enter(page, service, service.token())

    drop(page, b"id,name\n" + b"Unbroken" * 40 + b"," + b"n" * 300 + b"\nx\n")
    expect(page.get_by_text("2 refused")).to_be_visible()

    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    region = page.get_by_role("region", name="Refused rows")
    assert region.evaluate("region => region.scrollWidth <= region.clientWidth")
