"""Take the screenshots of the page in docs/: `python tools/screenshots.py`."""

import tempfile
from pathlib import Path
from typing import Final, Literal

from playwright.sync_api import Browser, expect

from plantstore.plants import NewPlant
from support.browser import enter, running_browser
from support.service import Service, opened

DOCS = Path(__file__).parent.parent / "docs"

PLANTS: Final = [
    NewPlant(1, "Abies balsamea (L.) Mill.", "Abies"),
    NewPlant(2, "Acer saccharum Marshall", "Acer"),
    NewPlant(3, "Asclepias tuberosa L.", "Asclepias"),
    NewPlant(5, "Cypripedium acaule Aiton", "Cypripedium"),
    NewPlant(8, "Quercus robur L.", "Quercus"),
    NewPlant(13, "Rosa × damascena"),
    NewPlant(21, "Sarracenia purpurea L.", "Sarracenia"),
    NewPlant(34, "Trillium grandiflorum (Michx.) Salisb.", "Trillium"),
]


def take(browser: Browser, service: Service, scheme: Literal["light", "dark"]) -> None:
    page = browser.new_page(color_scheme=scheme, viewport={"width": 1000, "height": 720})
    enter(page, service, service.token(name=scheme))
    expect(page.locator("#plants tr")).to_have_count(len(PLANTS))
    expect(page.locator("#tag-list li")).to_have_count(len({plant.tag for plant in PLANTS}) + 1)
    page.mouse.move(0, 0)  # A row under the mouse looks different.
    page.screenshot(path=DOCS / f"page-{scheme}.png")
    page.close()


def main() -> None:
    with (
        tempfile.TemporaryDirectory() as folder,
        Service(Path(folder)) as service,
        running_browser() as browser,
    ):
        with opened(service.database) as store:
            store.apply_changes(PLANTS)
        take(browser, service, "light")
        take(browser, service, "dark")


if __name__ == "__main__":
    main()
