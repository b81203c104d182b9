"""The page, in a real browser: searching plants, counting them, and their order."""

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from plantstore.plants import NewPlant
from support.browser import Watch, enter, rows
from support.service import Service

PLANTS = [
    NewPlant(1, "Quercus alba L.", "Quercus"),
    NewPlant(2, "Rosa × alba", "Rosa"),
    NewPlant(3, "Rosa canina", "Rosa"),
    NewPlant(4, "Ålesund", "Rosa"),
]


@pytest.fixture
def filled(context: BrowserContext, service: Service) -> Page:
    """Return a page that lists some plants."""
    service.change(*PLANTS)
    page = context.new_page()
    enter(page, service, service.token())
    expect(page.locator("#count")).to_have_text("4 plants")
    return page


def test_plants_are_found_by_the_beginnings_of_words_while_typing(filled: Page) -> None:
    box = filled.get_by_role("searchbox")

    box.press_sequentially("alb que")
    expect(filled.locator("#count")).to_have_text("1 plant")
    assert rows(filled) == [["1", "Quercus alba L.", "Quercus"]]
    expect(box).to_be_focused()
    expect(filled).to_have_title("alb que · Plant Store")
    box.fill("ale")
    expect(filled.locator("#plants .name")).to_have_text(["Ålesund"])
    box.fill("zzz")
    expect(filled.get_by_text("No plants found")).to_be_visible()
    expect(filled.locator("#count")).to_have_text("0 plants")
    filled.reload()
    expect(box).to_have_value("zzz")
    box.clear()

    expect(filled.locator("#count")).to_have_text("4 plants")
    expect(filled).to_have_title("Plants · Plant Store")
    filled.go_back()  # All that was typed is one step.
    expect(box).to_have_value("")


def test_a_text_that_is_also_a_tag_offers_the_plants_of_the_tag(filled: Page) -> None:
    filled.get_by_role("searchbox").fill("rosa")
    expect(filled.locator("#count")).to_have_text("2 plants")

    filled.get_by_role("link", name="3 plants with the tag Rosa").click()

    expect(filled.locator("#count")).to_have_text("3 plants")
    expect(filled.get_by_role("searchbox")).to_have_value("tag:Rosa")
    expect(filled.locator("#by-tag")).to_be_hidden()


def test_an_older_search_is_cancelled_and_quick_keys_send_one_request(
    filled: Page, watch: Watch
) -> None:
    held: list[Route] = []
    filled.route("**/plants?q=Ros&*", lambda route: held.append(route))  # noqa: PLW0108 (Playwright inspects its signature)
    cancelled: list[str] = []
    filled.on("requestfailed", lambda request: cancelled.append(request.url))
    box = filled.get_by_role("searchbox")
    with filled.expect_request("**/plants?q=Ros&*"):
        box.press_sequentially("Ros")

    with filled.expect_event("requestfailed"):
        box.press_sequentially("a can")

    expect(filled.locator("#plants .name")).to_have_text(["Rosa canina"])
    assert len(held) == len(cancelled) == 1
    searched = [url for url in watch.requests if "q=R" in url and "limit=50" in url]
    assert len(searched) == 2


def test_ten_thousand_plants_are_a_lower_bound_and_the_pages_have_links_above_and_below(
    page: Page, service: Service
) -> None:
    service.change(*(NewPlant(id_, "Rosa") for id_ in range(1, 10_052)))
    page.reload()
    expect(page.locator("#count")).to_have_text("10,051 plants")

    page.get_by_role("searchbox").fill("r")
    expect(page.locator("#count")).to_have_text("10,000 or more plants")
    page.get_by_role("navigation", name="Pages, below").get_by_role("link", name="Next").click()
    expect(page.locator("#plants .id").first).to_have_text("51")
    expect(page.get_by_role("navigation", name="Pages, above").get_by_role("link")).to_have_text(
        ["First page", "Previous", "Next"]
    )
    page.get_by_role("link", name="Id").click()

    expect(page.locator("#plants .id").first).to_have_text("10051")
    expect(page.get_by_role("columnheader", name="Id")).to_have_attribute("aria-sort", "descending")
    expect(page.get_by_role("searchbox")).to_have_value("r")


def test_rows_are_dense_and_nothing_moves_while_the_page_loads(
    context: BrowserContext, service: Service
) -> None:
    service.change(*(NewPlant(id_, f"Plant {id_}", "Abies") for id_ in range(60)))
    page = context.new_page()
    page.set_viewport_size({"width": 1280, "height": 800})
    enter(page, service, service.token())
    expect(page.locator("#plants tr")).to_have_count(50)

    inside = "row => row.getBoundingClientRect().bottom <= innerHeight"
    seen = page.evaluate(f"[...document.querySelectorAll('#plants tr')].filter({inside}).length")
    assert seen >= 18
    page.set_viewport_size({"width": 412, "height": 823})
    for condition in ("loads", "shows the next page"):
        if condition == "loads":
            page.reload()
            expect(page.locator("#plants tr")).to_have_count(50)
        else:
            page.get_by_role("link", name="Next").first.click()
            expect(page.locator("#plants tr")).to_have_count(10)
        assert page.evaluate(_SHIFT) < 0.05


# The cumulative layout shift, as browsers report it.
_SHIFT = """new Promise((resolve) => {
    let sum = 0;
    new PerformanceObserver((list) => {
        for (const entry of list.getEntries()) sum += entry.hadRecentInput ? 0 : entry.value;
    }).observe({ type: "layout-shift", buffered: true });
    requestAnimationFrame(() => setTimeout(() => resolve(sum)));
})"""
