"""The page, in a real browser: files are imported and exported."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, FilePayload, Page, expect

from plantstore.plants import NewPlant
from support.browser import Watch, assert_accessible, drop, listed_errors, rows, save
from support.command import run
from support.postgres import wait_until
from support.proxy import Proxy
from support.service import Service, stored_plants

ROWS = 5_000
CONTENT = ("id,name\n" + "".join(f"{id_},Plant {id_:05}\n" for id_ in range(ROWS))).encode()

# The service has stored two batches when it has received this much, and waits for the rest.
HELD_BYTES = 45_000

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


class Held:
    """A service behind a proxy that holds an import back, and the page."""

    def __init__(self, page: Page, service: Service, proxy: Proxy) -> None:
        self.page = page
        self.service = service
        self.proxy = proxy
        self.error = page.locator("#import-error")
        self.result = page.locator("#import-said")
        self.stop = page.get_by_role("button", name="Stop")
        self.again = page.get_by_role("button", name="Try again")

    def stored(self) -> int:
        return len(stored_plants(self.service.database))

    def begin(self) -> None:
        """Import a file, of which the service receives only the beginning."""
        self.proxy.hold_after = HELD_BYTES
        drop(self.page, CONTENT)
        assert self.proxy.is_holding.wait(60)
        wait_until(lambda: self.stored() == 1_000)


@pytest.fixture
def held(context: BrowserContext, tmp_path: Path) -> Iterator[Held]:
    with Service(tmp_path, "--stop-seconds", "1") as service, Proxy(service.port) as proxy:
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{proxy.port}")
        page.get_by_label("Bearer token").fill(service.token())
        page.keyboard.press("Enter")
        expect(page.get_by_text("no plants yet")).to_be_visible()
        yield Held(page, service, proxy)
        page.close()
        service.stop()  # This closes the connections of the browser to the proxy.


def test_an_import_is_stopped_and_continued_with_the_keyboard_and_not_lost_with_its_tab(
    held: Held, watch: Watch
) -> None:
    watch.service_goes_away = True  # The browser logs that it cannot read a file.
    held.begin()
    with held.page.expect_event("dialog") as question:
        held.page.close(run_before_unload=True)
    assert question.value.type == "beforeunload"
    question.value.dismiss()

    held.stop.focus()
    held.page.keyboard.press("Enter")
    expect(held.error).to_have_text(f"Stopped. {MAYBE} {SAFE}")
    expect(held.stop).to_be_hidden()
    expect(held.again).to_be_focused()
    assert_accessible(held.page)
    held.proxy.hold_after = None
    held.page.keyboard.press("Enter")
    expect(held.result).to_contain_text(" stored, ")
    expect(held.error).to_be_empty()
    expect(held.page.get_by_role("heading", name="Import")).to_be_focused()
    numbers = re.findall(r"[\d,]+(?= stored| already there)", held.result.inner_text())
    assert sum(int(number.replace(",", "")) for number in numbers) == ROWS
    assert held.stored() == ROWS

    held.proxy.hold_after = HELD_BYTES
    drop(held.page, CONTENT)
    expect(held.stop).to_be_visible()
    held.page.get_by_role("button", name="Sign out").click()
    expect(held.page.get_by_label("Bearer token")).to_be_focused()


def test_an_import_of_a_service_that_stops_or_dies_shows_what_is_stored_and_is_tried_again(
    held: Held, watch: Watch
) -> None:
    watch.service_goes_away = True
    held.begin()

    held.service.process.send_signal(signal.SIGTERM)
    expect(held.error).to_contain_text("The service is stopping")
    stored = "Rows up to line 1,001 are stored, unless they were refused; later rows may be stored"
    expect(held.error).to_contain_text(f"{stored}, too. {SAFE}")
    held.service.stop()
    held.proxy.is_holding.clear()
    with Service(held.service.folder, "--port", str(held.service.port)) as restarted:
        held.again.click()
        assert held.proxy.is_holding.wait(60)
        restarted.stop(signal.SIGKILL)
    broken = f"The connection to the service broke off. {MAYBE} {SAFE}"
    expect(held.error).to_have_text(broken)
    held.proxy.hold_after = None
    with Service(held.service.folder, "--port", str(held.service.port)):
        held.again.click()
        expect(held.result).to_have_text("Import finished: 4,000 stored, 1,000 already there.")
        held.page.close()

    assert held.stored() == ROWS
