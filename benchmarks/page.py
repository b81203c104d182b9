"""How long does the page take to import a file, and to show what a person types?

The page and `plantstore import` import the same file into an empty store, alternately. The time of
the page begins when the file is chosen, includes the preview, and ends when the page says that the
import is finished.
The time of the command includes the start of the program.

In a store of a million plants, a person types the first six letters of words of their names into
the search box. The time begins with the last key, and ends when the page changes for the last time:
it shows the plants and their number. The page waits a moment before it searches, because another
key may follow. The time is 0 if the key changes nothing.
"""

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, expect

from harness import make_token, spread, table, write_result
from plant_names import one_word
from searches import fill
from support.browser import enter, running_browser
from support.service import Service
from transfer import command, generate

ROUNDS = 7
SEARCHES = 20

# A large catalogue.
PLANTS = 27_123

# What the page says after the import.
IMPORTED = f"{PLANTS:,} new"

# Notes in the page when the file is chosen, and when the page says that it is imported.
_NOTE_TIMES = """imported => {
    window.times = [];
    const note = () => window.times.push(performance.now());
    document.addEventListener("change", note, {capture: true, once: true});
    const said = document.getElementById("said");
    new MutationObserver(() => said.textContent.includes(imported) && note())
        .observe(said, {childList: true, characterData: true, subtree: true});
}"""


# Plants of the store that is searched, and the pause between two keys.
SEARCHED = 1_000_000
KEY_MS = 120

# Notes in the page when a key is pressed, and when what the page shows changes.
_NOTE_CHANGES = """() => {
    window.times = {key: 0, change: 0};
    document.addEventListener("keydown", () => { window.times.key = performance.now(); });
    new MutationObserver(() => { window.times.change = performance.now(); })
        .observe(document.body, {childList: true, characterData: true, subtree: true});
}"""
_IS_QUIET = "() => performance.now() - Math.max(window.times.key, window.times.change) > 1000"


def by_command(file: Path) -> float:
    with tempfile.TemporaryDirectory() as folder:
        database = Path(folder) / "plants.db"
        make_token(database)
        began = time.perf_counter()
        subprocess.run(
            command("plantstore import", database, file), check=True, stdout=subprocess.DEVNULL
        )
        return time.perf_counter() - began


def by_page(browser: Browser, file: Path) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        Service(Path(folder)) as service,
        browser.new_page() as page,
    ):
        enter(page, service, service.token())
        expect(page.get_by_text("no plants yet")).to_be_visible()
        page.evaluate(_NOTE_TIMES, IMPORTED)
        page.get_by_role("button", name="Import", exact=True).click()
        page.locator("#file").set_input_files(file)
        page.get_by_role("dialog").get_by_role("button", name="Import", exact=True).click()
        expect(page.locator("#said")).to_contain_text(IMPORTED)
        chosen, finished, *_ = page.evaluate("window.times")
        return float(finished - chosen) / 1000


def by_typing(browser: Browser) -> list[float]:
    """Return the times from the last key to the last change of the page, in milliseconds."""
    with tempfile.TemporaryDirectory() as folder:
        fill(Path(folder) / "plants.db", SEARCHED)
        with Service(Path(folder)) as service, browser.new_page() as page:
            enter(page, service, service.token())
            expect(page.locator("#count")).to_have_text(f"{SEARCHED:,} plants")
            page.evaluate(_NOTE_CHANGES)
            box = page.get_by_role("searchbox", name="Search")
            times = []
            for word in one_word(SEARCHES, 6):
                box.clear()
                page.wait_for_function(_IS_QUIET)
                box.press_sequentially(word, delay=KEY_MS)
                page.wait_for_function(_IS_QUIET)
                expect(page.locator("#plants .name").first).to_contain_text(word, ignore_case=True)
                times.append(max(0, page.evaluate("window.times.change - window.times.key")))
            return times


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        file = Path(folder) / "plants.csv"
        generate(file, PLANTS)
        seconds = [(by_page(browser, file), by_command(file)) for _ in range(ROUNDS)]
        typed = by_typing(browser)
    rows = [
        [
            "time of the page ÷ time of `plantstore import`",
            spread([page / command for page, command in seconds]),
            "≤ 5",
        ],
        ["seconds, the page", f"{median([page for page, _ in seconds]):.2f}", "-"],
        ["seconds, `plantstore import`", f"{median([command for _, command in seconds]):.2f}", "-"],
    ]
    rows.append(
        [
            f"ms from the last of six letters to the plants found among {SEARCHED:,}",
            f"{median(typed):.0f} ({min(typed):.0f} to {max(typed):.0f})",
            "≤ 300",
        ]
    )
    figures = table(["figure", "measured", "bar"], rows)
    write_result("page", f"# The page\n\nThe file has {PLANTS:,} plants.\n\n{figures}")


if __name__ == "__main__":
    main()
