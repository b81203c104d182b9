"""Imports on the page, in a real browser, that are stopped or fail half-way."""

import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Dialog, Page, expect

from support.browser import Watch, assert_accessible, drop
from support.postgres import wait_until
from support.proxy import Proxy
from support.service import Service, stored_plants

ROWS = 5_000
CONTENT = ("id,name\n" + "".join(f"{id_},Plant {id_:05}\n" for id_ in range(ROWS))).encode()

# The service has stored two batches when it has received this much, and waits for the rest.
HELD_BYTES = 45_000

SAFE = "Importing the same file again is safe."


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

    def begin(self, content: bytes = CONTENT) -> None:
        """Import a file, of which the service receives only the beginning."""
        drop(self.page, content)
        assert self.proxy.is_holding.wait(60)
        wait_until(lambda: self.stored() == 1_000)


@pytest.fixture
def options() -> list[str]:
    return []


@pytest.fixture
def held(context: BrowserContext, tmp_path: Path, options: list[str]) -> Iterator[Held]:
    with (
        Service(tmp_path, "--stop-seconds", "1", *options) as service,
        Proxy(service.port) as proxy,
    ):
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{proxy.port}")
        page.get_by_label("Bearer token").fill(service.token())
        page.keyboard.press("Enter")
        expect(page.get_by_text("no plants yet")).to_be_visible()
        proxy.hold_after = HELD_BYTES
        yield Held(page, service, proxy)
        page.close()
        service.stop()  # This closes the connections of the browser to the proxy.


def test_an_import_shows_how_much_was_sent_and_then_that_the_service_stores(
    held: Held, tmp_path: Path
) -> None:
    file = tmp_path / "large.csv"
    file.write_text("id,name,more\n" + "".join(f"{id_},A,{'x' * 1000}\n" for id_ in range(30_000)))
    said = held.page.locator("#import-said")
    said.evaluate(
        """said => {
            window.said = [];
            new MutationObserver(() => window.said.push(said.textContent))
                .observe(said, { childList: true, characterData: true, subtree: true });
        }"""
    )

    held.page.locator("#file").set_input_files(file)
    expect(held.page.locator("#import-sent")).to_have_text(re.compile(r"[1-9].* of 30\.3 MB sent"))
    position = held.page.locator("#progress").evaluate("progress => progress.position")
    held.proxy.release()
    expect(said).to_have_text("Import finished: 30,000 stored.")

    assert 0 < position < 1
    assert held.page.evaluate("window.said") == [
        "The file is sent. The service is storing the plants…",
        "Import finished: 30,000 stored.",
    ]
    expect(held.page.locator("#progress")).to_be_hidden()
    warning = 'Column "more" is ignored; known columns are id, name and tag'
    expect(held.page.locator("#import-warning")).to_have_text(warning)


def test_an_import_can_be_stopped_and_continued_with_the_keyboard(held: Held) -> None:
    held.begin()
    held.stop.focus()

    held.page.keyboard.press("Enter")
    expect(held.error).to_have_text(f"Stopped. Rows that were sent may be stored. {SAFE}")
    expect(held.stop).to_be_hidden()
    expect(held.again).to_be_focused()
    held.proxy.release()
    held.page.keyboard.press("Enter")

    expect(held.result).to_contain_text(" stored, ")
    expect(held.error).to_be_empty()
    expect(held.page.get_by_role("heading", name="Import")).to_be_focused()
    numbers = re.findall(r"[\d,]+(?= stored| already there)", held.result.inner_text())
    assert sum(int(number.replace(",", "")) for number in numbers) == ROWS
    assert held.stored() == ROWS


def test_an_import_of_a_service_that_is_killed_can_be_tried_again(held: Held, watch: Watch) -> None:
    watch.service_goes_away = True
    held.begin()

    held.service.stop(signal.SIGKILL)
    broken = "The connection to the service broke off. Rows that were sent may be stored."
    expect(held.error).to_have_text(f"{broken} {SAFE}")
    held.proxy.hold_after = None
    with Service(held.service.folder, "--port", str(held.service.port)):
        held.again.click()
        expect(held.result).to_have_text("Import finished: 4,000 stored, 1,000 already there.")
        held.page.close()

    assert held.stored() == ROWS


@pytest.mark.parametrize("options", [["--request-seconds", "1"]])
def test_an_import_that_arrives_too_slowly_shows_up_to_which_line_rows_are_stored(
    held: Held,
) -> None:
    held.begin()

    stored = "Rows up to line 1,001 are stored, unless they were refused; later rows may be stored"
    expect(held.error).to_contain_text("The body must arrive with")
    expect(held.error).to_contain_text(f"bytes per second. {stored}, too. {SAFE}")
    held.proxy.hold_after = None
    held.again.click()
    expect(held.result).to_have_text("Import finished: 4,000 stored, 1,000 already there.")


@pytest.mark.parametrize("options", [["--stop-seconds", "1"]])
def test_an_import_of_a_service_that_stops_shows_up_to_which_line_rows_are_stored(
    held: Held, watch: Watch
) -> None:
    watch.service_goes_away = True
    held.begin()

    held.service.process.send_signal(signal.SIGTERM)

    expect(held.error).to_contain_text("The service is stopping")
    expect(held.error).to_contain_text("Rows up to line 1,001 are stored")
    expect(held.again).to_be_visible()


def test_a_second_file_is_refused_while_an_import_runs(held: Held) -> None:
    held.begin()

    drop(held.page, b"id,name\n-1,Another\n", name="other.csv")

    expect(held.error).to_have_text("Import one file at a time")
    expect(held.page.locator("#import-file")).to_have_text("plants.csv")
    held.proxy.release()
    expect(held.result).to_have_text("Import finished: 5,000 stored.")
    expect(held.error).to_be_empty()
    assert held.stored() == ROWS


def test_the_browser_asks_before_a_tab_with_a_running_import_is_closed(held: Held) -> None:
    questions: list[str] = []

    def stay(dialog: Dialog) -> None:
        questions.append(dialog.type)
        dialog.dismiss()

    held.page.on("dialog", stay)
    held.begin()

    held.page.close(run_before_unload=True)
    wait_until(lambda: held.page.title() == "Plants · Plant Store" and bool(questions))

    assert questions == ["beforeunload"]


def test_signing_out_stops_a_running_import_without_a_question(held: Held) -> None:
    questions: list[str] = []

    def leave(dialog: Dialog) -> None:
        questions.append(dialog.type)
        dialog.accept()

    held.page.on("dialog", leave)
    held.begin()

    held.page.get_by_role("button", name="Sign out").click()
    expect(held.page.get_by_label("Bearer token")).to_be_focused()

    assert not questions


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_during_and_after_an_import_that_is_stopped(
    held: Held, scheme: str
) -> None:
    held.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")

    held.begin()
    assert_accessible(held.page)
    held.stop.click()
    expect(held.again).to_be_visible()
    assert_accessible(held.page)


def test_a_file_that_changes_cannot_be_tried_again(
    held: Held, tmp_path: Path, watch: Watch
) -> None:
    watch.service_goes_away = True  # The browser logs that it cannot read the file.
    file = tmp_path / "changing.csv"
    file.write_bytes(CONTENT)
    held.page.locator("#file").set_input_files(file)
    held.stop.click()
    os.utime(file, (0, 0))

    held.again.click()

    message = "The file cannot be read: it is a folder, or was changed or removed"
    expect(held.error).to_have_text(message)
    expect(held.again).to_be_hidden()
