"""A real browser, and the errors and warnings that it reports."""

import os
import re
import shutil
from base64 import b64encode
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, Literal
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, expect, sync_playwright

from support.service import Service

# How long to wait for what a page shall do: a test may have a tenth of a core.
_WAIT_MS: Final = 120_000

# Without these options Chromium sends requests to its vendor. Its sandbox does not run as root;
# the tests open only pages of the service.
_OPTIONS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]

# A script for a browser that keeps no session storage.
SHUT_STORAGE = (
    "Object.defineProperty(window, 'sessionStorage', { get() { throw new Error('shut') } })"
)

# A script by which the page looks after the service more often, and waits less long for anything.
HURRY = """
const [wait, limit] = [window.setTimeout, AbortSignal.timeout];
window.setTimeout = (act, ms, ...words) => wait.call(window, act, ms / 5, ...words);
AbortSignal.timeout = (ms) => limit.call(AbortSignal, ms / 5);
"""

# A browser logs each response with status 400 or above, even if the page handles it.
_REFUSAL = re.compile(r"Failed to load resource: the server responded with a status of [45]\d\d")
_OPERATION = re.compile(r"/(plants([./].*)?|tags|ids|changes|undo|token|readyz|metrics)")


@contextmanager
def running_browser() -> Iterator[Browser]:
    """Run Chromium without its windows, or the browser that CHROMIUM names, until the block ends.

    The headless shell needs half of the CPU time that Chromium needs.
    """
    executable = shutil.which(os.environ.get("CHROMIUM", "chromium-headless-shell"))
    assert executable, "the tests drive a browser: apt-get install chromium-headless-shell"
    expect.set_options(timeout=_WAIT_MS)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=_OPTIONS)
        try:
            yield browser
        finally:
            browser.close()


class Watch:
    """Records the console messages, errors and requests of the tabs of a browser."""

    def __init__(self) -> None:
        self.problems: list[str] = []
        self.requests: list[str] = []
        self.service_goes_away = False

    def watch(self, page: Page) -> None:
        page.set_default_timeout(_WAIT_MS)
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.problems.append(str(error)))
        page.on("request", lambda request: self.requests.append(request.url))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type not in {"error", "warning"}:
            return
        path = urlsplit(message.location["url"]).path
        if _OPERATION.fullmatch(path) and (_REFUSAL.match(message.text) or self.service_goes_away):
            return
        self.problems.append(message.text)

    def assert_quiet(self) -> None:
        """Assert that no tab reported a problem and that none sent a request to another host."""
        assert not self.problems, self.problems
        assert self.requests
        hosts = {urlsplit(url.removeprefix("blob:")).hostname for url in self.requests}
        assert hosts == {"127.0.0.1"}


# axe takes long for each element, and the rows are alike; and for what is not a violation.
_FIRST_ROWS: Final = {"exclude": [["#plants tr:nth-child(n+6)"]]}
VIOLATIONS: Final = {"resultTypes": ["violations"]}


def assert_accessible(page: Page) -> None:
    """Assert that axe-core finds no violation on the page in its present state.

    In the dark scheme, only the colors differ. Of the rows of the list, the first are checked.
    """
    page.emulate_media(color_scheme="light")
    light = Axe().run(page, _FIRST_ROWS, VIOLATIONS)
    page.emulate_media(color_scheme="dark")
    dark = Axe().run(page, _FIRST_ROWS, VIOLATIONS | {"runOnly": ["color-contrast"]})
    assert light.violations_count == 0, light.generate_report()
    assert dark.violations_count == 0, dark.generate_report()


def enter(page: Page, service: Service, token: str) -> None:
    """Open the page of a service and sign in with a token."""
    page.goto(f"http://127.0.0.1:{service.port}")
    page.get_by_label("Access token").fill(token)
    page.get_by_role("button", name="Sign in").click()


def moved(page: Page) -> float:
    """Return the cumulative layout shift, as browsers report it."""
    shift: float = page.evaluate(
        """new Promise((resolve) => {
            let sum = 0;
            new PerformanceObserver((list) => {
                for (const each of list.getEntries()) sum += each.hadRecentInput ? 0 : each.value;
            }).observe({ type: "layout-shift", buffered: true });
            requestAnimationFrame(() => setTimeout(() => resolve(sum)));
        })"""
    )
    return shift


def choose(page: Page, what: Literal["Edit", "Delete"], id_: int) -> None:
    """Open a plant of the list, to edit it or to delete it."""
    page.locator(f"#plants tr[data-id='{id_}'] .name a").click()
    if what == "Delete":
        dialog = page.get_by_role("dialog", name=f"Edit plant {id_}", exact=True)
        dialog.get_by_role("button", name="Delete", exact=True).click()


def store(page: Page, **fields: str) -> None:
    """Fill in the open dialog and submit it."""
    for label, text in fields.items():
        page.locator(f"dialog [name={label}]").fill(text)
    page.get_by_role("dialog").get_by_role("button", name="Save", exact=True).click()


def drop(page: Page, content: bytes, name: str = "plants.csv") -> None:
    """Drop a file on the page, as a file manager would."""
    page.evaluate(
        """([text, name]) => {
            const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([bytes], name));
            for (const kind of ["dragover", "drop"]) {
                const options = { dataTransfer, bubbles: true, cancelable: true };
                document.body.dispatchEvent(new DragEvent(kind, options));
            }
        }""",
        [b64encode(content).decode(), name],
    )


def import_rows(page: Page, said: str) -> None:
    """Import what the preview shows, after it says what would become of the rows."""
    preview = page.get_by_role("dialog", name="Import ")
    expect(preview.locator("#preview-said")).to_have_text(said)
    preview.get_by_role("button", name="Import", exact=True).click()
    expect(preview.locator("#preview-said")).to_be_hidden()


def save(page: Page, role: Literal["link", "button"], name: str) -> tuple[str, bytes]:
    """Click on a link or a button that saves a file; return the name and the content."""
    with page.expect_download() as download:
        page.get_by_role(role, name=name).click()
    return download.value.suggested_filename, download.value.path().read_bytes()


def export(page: Page, kind: Literal["CSV", "Excel"]) -> tuple[str, bytes]:
    """Export the plants of the list; return the name and the content of the file."""
    page.get_by_role("button", name="More", exact=True).click()
    return save(page, "button", f"as {kind}")


def rows(page: Page) -> list[list[str]]:
    """Return id, name and tag of each plant that is shown, after the listing has loaded."""
    expect(page.locator("#listing")).to_have_attribute("aria-busy", "false")
    cells: list[list[str]] = page.evaluate(
        "[...document.querySelectorAll('#plants tr')].map("
        "  row => [...row.querySelectorAll('.id, .name, .tag')].map(cell => cell.textContent))"
    )
    return cells
