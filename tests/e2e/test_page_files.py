"""The page, in a real browser: files are imported and exported."""

import re
import signal
from collections.abc import Callable

from playwright.sync_api import FilePayload, Page, expect

from plantstore.plants import NewPlant
from support.browser import Watch, assert_accessible, drop, listed_errors, rows, save
from support.command import run
from support.service import Service, stored_plants

ROWS = 5_000
CONTENT = ("id,name\n" + "".join(f"{id_},Plant {id_:05}\n" for id_ in range(ROWS))).encode()

MAYBE = "Rows that were sent may be stored."
SAFE = "Importing the same file again is safe."
EXPORT = "Export CSV"


def upload(content: str) -> FilePayload:
    return {"name": "plants.csv", "mimeType": "text/csv", "buffer": content.encode()}


def test_an_import_counts_each_outcome_and_saves_the_refused_rows_for_a_spreadsheet(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(NewPlant(1, "Abies"), NewPlant(2, "Picea"))
    content = 'id;name;tag\n1;Abies;\n2;Another;\n3;"Rosa ×";Rosa\n\n=1+1;Tilia;-7\n'.encode()

    drop(page, content + b"5;\xc4pfel;\r\n", name="my.plants.csv")

    result = "Import finished: 1 stored, 1 already there, 3 refused."
    expect(page.locator("#import-said")).to_have_text(result)
    expect(page.get_by_role("heading", name="Import")).to_be_focused()
    taken = "`id` is taken: another plant is stored under the id 2"
    integer = f'`id` must be an integer from {-(2**63)} to {2**63 - 1}, got "=1+1"'
    assert listed_errors(page) == [
        ["3", taken, "2;Another;"],
        ["6", integer, "=1+1;Tilia;-7"],
        ["7", "The row is not UTF-8", "5;\ufffdpfel;"],
    ]
    assert stored_plants(garden.database) == {
        1: NewPlant(1, "Abies"),
        2: NewPlant(2, "Picea"),
        3: NewPlant(3, "Rosa ×", "Rosa"),
    }
    assert [row[0] for row in rows(page)] == ["1", "2", "3"]
    for name in ("Stop", "Try again"):
        expect(page.get_by_role("button", name=name)).to_be_hidden()
    saved_name, saved = save(page, "link", "Save the refused rows")
    assert saved_name == "my.plants-refused.csv"
    assert saved.startswith(b"\xef\xbb\xbf")
    assert "'=1+1;Tilia;'-7" in saved.decode()
    page.get_by_role("button", name="Close", exact=True).click()
    expect(page.locator("#import")).to_be_hidden()


def test_a_file_is_chosen_and_updates_plants_if_this_is_chosen(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page()
    said = page.locator("#import-said")
    expect(page.locator("#start").get_by_role("button")).to_have_count(2)
    assert_accessible(page)

    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import a CSV file").click()
    chooser.value.set_files(upload("id,name,tag\n1,Old,Abies\n2,Picea,\n"))
    expect(said).to_have_text("Import finished: 2 stored.")
    expect(page.locator("#count")).to_have_text("2 plants")
    expect(page.locator("#start")).to_be_hidden()
    page.get_by_role("checkbox", name="Update plants that exist").check()
    with page.expect_file_chooser() as chooser:
        page.get_by_text("Import CSV").click()
    chooser.value.set_files(upload("id,name,tag,more\n1,New,,\n2,Picea,,\n3,Rosa,,\n"))

    expect(said).to_have_text("Import finished: 1 stored, 1 already there, 1 updated.")
    warning = 'Column "more" is ignored; known columns are id, name and tag'
    expect(page.locator("#import-warning")).to_have_text(warning)
    expect(page.get_by_role("link", name="Save the refused rows")).to_be_hidden()
    assert stored_plants(garden.database)[1] == NewPlant(1, "New")


def test_all_plants_or_those_of_a_search_are_saved(
    open_page: Callable[..., Page], garden: Service
) -> None:
    many = [NewPlant(id_, f'Rosa "{id_}", ×\n', "Rosa & Co") for id_ in range(1_500)]
    page = open_page(NewPlant(-7, "=1+1", "Other"), *many)

    name, content = save(page, "button", EXPORT)
    run(garden.folder, "export", "expected.csv")
    expected = b"\xef\xbb\xbf" + (garden.folder / "expected.csv").read_bytes()
    assert (name, content) == ("plants.csv", expected)
    expect(page.locator("#said")).to_have_text("Exported: plants.csv")
    page.get_by_role("link", name="Other", exact=True).click()
    expect(page.locator("#count")).to_have_text("1 plant")
    other = save(page, "button", EXPORT)
    assert other == ("plants-Other.csv", b"\xef\xbb\xbfid,name,tag\r\n-7,=1+1,Other\r\n")


def test_an_import_is_stopped_and_continued_with_the_keyboard_and_not_lost_with_its_tab(
    open_page: Callable[..., Page], garden: Service, watch: Watch
) -> None:
    watch.service_goes_away = True  # The browser logs that it cannot read a file.
    page = open_page()
    error, result = page.locator("#import-error"), page.locator("#import-said")
    stop = page.get_by_role("button", name="Stop")
    garden.process.send_signal(signal.SIGSTOP)
    drop(page, CONTENT)
    expect(stop).to_be_visible()
    with page.expect_event("dialog") as question:
        page.close(run_before_unload=True)
    assert question.value.type == "beforeunload"
    question.value.dismiss()

    stop.focus()
    page.keyboard.press("Enter")
    expect(error).to_have_text(f"Stopped. {MAYBE} {SAFE}")
    expect(stop).to_be_hidden()
    expect(page.get_by_role("button", name="Try again")).to_be_focused()
    assert_accessible(page)
    garden.process.send_signal(signal.SIGCONT)
    page.keyboard.press("Enter")
    expect(result).to_contain_text(" stored")
    expect(error).to_be_empty()
    expect(page.get_by_role("heading", name="Import")).to_be_focused()
    numbers = re.findall(r"[\d,]+(?= stored| already there)", result.inner_text())
    assert sum(int(number.replace(",", "")) for number in numbers) == ROWS
    assert len(stored_plants(garden.database)) == ROWS

    garden.process.send_signal(signal.SIGSTOP)
    drop(page, CONTENT)
    expect(stop).to_be_visible()
    page.get_by_role("button", name="Sign out").dispatch_event("click")
    garden.process.send_signal(signal.SIGCONT)
    expect(page.get_by_label("Access token")).to_be_focused()
