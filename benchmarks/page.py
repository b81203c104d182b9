"""How long does the page take to import a file, compared with `plantstore import`?

Both import the same file into an empty store, alternately. The time of the page begins when the
file is chosen, and ends when the page says that the import is finished. The time of the command
includes the start of the program.
"""

import subprocess
import tempfile
import time
from pathlib import Path
from statistics import median

from playwright.sync_api import Browser, expect

from harness import make_token, spread, table, write_result
from support.browser import enter, running_browser
from support.service import Service
from transfer import command, generate

ROUNDS = 7

# A large catalogue.
PLANTS = 27_123

# Notes in the page when the file is chosen, and when the page says that it is imported.
_NOTE_TIMES = """() => {
    window.times = [];
    const note = () => window.times.push(performance.now());
    document.getElementById("file").addEventListener("change", note, {capture: true});
    const said = document.getElementById("import-said");
    new MutationObserver(() => said.textContent.startsWith("Import finished") && note())
        .observe(said, {childList: true});
}"""


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
        page.evaluate(_NOTE_TIMES)
        page.locator("#file").set_input_files(file)
        expect(page.get_by_text("Import finished")).to_be_visible()
        chosen, finished, *_ = page.evaluate("window.times")
        return float(finished - chosen) / 1000


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, running_browser() as browser:
        file = Path(folder) / "plants.csv"
        generate(file, PLANTS)
        seconds = [(by_page(browser, file), by_command(file)) for _ in range(ROUNDS)]
    rows = [
        [
            "time of the page ÷ time of `plantstore import`",
            spread([page / command for page, command in seconds]),
            "≤ 5",
        ],
        ["seconds, the page", f"{median([page for page, _ in seconds]):.2f}", "-"],
        ["seconds, `plantstore import`", f"{median([command for _, command in seconds]):.2f}", "-"],
    ]
    figures = table(["figure", "measured", "bar"], rows)
    write_result("page", f"# A file on the page\n\nThe file has {PLANTS:,} plants.\n\n{figures}")


if __name__ == "__main__":
    main()
