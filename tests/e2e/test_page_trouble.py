"""The page, in a real browser, when responses are late, broken, or from another server."""

import signal

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from plantstore.changes import Deletion
from plantstore.plants import NewPlant
from support.browser import Watch, assert_accessible, choose, enter, rows, store
from support.service import Service, stored_plants


class Held:
    """Holds back the browser's requests for a URL until they are released."""

    def __init__(self, page: Page, url: str) -> None:
        self._routes: list[Route] = []
        self._holds = True
        page.route(url, lambda route: self._take(route))  # noqa: PLW0108 (Playwright inspects its signature)

    def _take(self, route: Route) -> None:
        if self._holds:
            self._routes.append(route)
        else:
            route.continue_()

    def let_go(self) -> None:
        self._holds = False
        for route in self._routes:
            route.continue_()


def test_a_response_after_its_dialog_is_closed_is_reported_for_its_own_plant(
    page: Page, service: Service
) -> None:
    service.change(NewPlant(1, "Abies"), NewPlant(2, "Rosa"))
    page.reload()
    held = Held(page, "**/plants/1")
    question = page.get_by_role("dialog", name="Delete this plant?")
    choose(page, "Delete", 1)
    with page.expect_request("**/plants/1"):
        question.get_by_role("button", name="Delete", exact=True).click()
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()

    choose(page, "Delete", 2)
    held.let_go()

    expect(page.get_by_text("Deleted: 1")).to_be_visible()
    expect(question).to_contain_text("2: Rosa")
    assert set(stored_plants(service.database)) == {2}


def test_repeated_clicks_send_one_request_and_the_dialog_shows_that_it_waits(
    page: Page, watch: Watch
) -> None:
    held = Held(page, "**/plants")
    page.get_by_role("button", name="Add a plant").click()
    page.get_by_role("textbox", name="Id").fill("1")
    page.get_by_role("textbox", name="Name").fill("Abies")
    dialog = page.get_by_role("dialog")

    for _ in range(3):
        dialog.get_by_role("button", name="Store", exact=True).click()
    expect(dialog.get_by_role("status")).to_have_text("Waiting for the service…")
    held.let_go()

    expect(page.get_by_text("Stored: 1")).to_be_visible()
    assert len([url for url in watch.requests if url.endswith("/plants")]) == 1


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation_while_responses_are_pending(
    page: Page, service: Service, scheme: str
) -> None:
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    service.change(*(NewPlant(id_, "Abies", "Abies") for id_ in range(60)))
    page.reload()
    assert len(rows(page)) == 50
    plants = Held(page, "**/plants?*")

    choose(page, "Change", 7)
    expect(page.get_by_role("dialog")).to_be_visible()
    change = Held(page, "**/plants/7")
    page.keyboard.press("Enter")
    expect(page.get_by_text("Waiting for the service…")).to_be_visible()
    assert_accessible(page)
    change.let_go()
    expect(page.get_by_text("Changed: 7")).to_be_visible()
    expect(page.locator("#listing")).not_to_have_css("outline-color", "rgba(0, 0, 0, 0)")
    assert_accessible(page)
    plants.let_go()
    assert len(rows(page)) == 50


def test_a_late_listing_does_not_move_the_focus(page: Page, service: Service) -> None:
    service.change(NewPlant(1, "Abies", "Abies"), NewPlant(2, "Rosa", "Rosa"))
    page.reload()
    assert len(rows(page)) == 2
    held = Held(page, "**/plants?*")
    choose(page, "Change", 1)
    store(page)
    expect(page.get_by_text("Changed: 1")).to_be_visible()

    page.locator("#plants .tag a").last.focus()
    held.let_go()

    assert len(rows(page)) == 2
    expect(page.locator("#plants .tag a").last).to_be_focused()


def test_of_two_requested_listings_the_later_one_is_shown(page: Page, service: Service) -> None:
    service.change(*(NewPlant(id_, "Abies", "Abies") for id_ in range(60)), NewPlant(99, "R", "R"))
    page.reload()
    held = Held(page, "**/plants?*after=49*")
    with page.expect_request("**/plants?*after=49*"):
        page.get_by_role("link", name="Next").first.click()

    page.get_by_role("searchbox").fill("R")
    expect(page.locator("#plants tr")).to_have_count(1)
    held.let_go()

    expect(page.locator("#plants .id")).to_have_text("99")
    expect(page.get_by_role("searchbox")).to_have_value("R")


def test_a_pending_listing_is_not_shown_as_empty(context: BrowserContext, service: Service) -> None:
    service.change(NewPlant(1, "Abies"))
    page = context.new_page()
    held = Held(page, "**/plants?*")

    with page.expect_request("**/plants?*"):
        enter(page, service, service.token())
    expect(page.locator("#listing")).to_have_attribute("aria-busy", "true")
    expect(page.locator("#none")).to_be_hidden()
    expect(page.get_by_role("heading", name="Plants")).to_be_focused()
    page.get_by_role("searchbox").focus()
    held.let_go()

    assert rows(page) == [["1", "Abies", ""]]
    expect(page.get_by_role("searchbox")).to_be_focused()


def test_the_page_reports_that_the_service_hangs_and_loads_the_list_when_it_recovers(
    page: Page, service: Service
) -> None:
    service.change(*(NewPlant(id_, "Abies") for id_ in range(60)))
    page.reload()
    expect(page.get_by_role("link", name="Next").first).to_be_visible()

    service.process.send_signal(signal.SIGSTOP)
    page.get_by_role("link", name="Next").first.click()
    expect(page.locator("#listing-error")).to_have_text("The service does not respond")
    expect(page.locator("#health")).to_have_text("The service does not respond")
    service.process.send_signal(signal.SIGCONT)

    expect(page.locator("#health")).to_have_text("Ready")
    expect(page.locator("#plants .id").first).to_have_text("50")
    expect(page.locator("#listing-error")).to_be_empty()


@pytest.mark.parametrize("status", [200, 502])
@pytest.mark.parametrize("body", ["<h1>Sign in</h1>", '{"detail": "Bad gateway"}', "null", ""])
def test_a_response_from_another_server_is_reported_as_such(
    page: Page, status: int, body: str
) -> None:
    page.route("**/plants?*", lambda route: route.fulfill(status=status, body=body))

    page.reload()

    expect(page.locator("#listing-error")).to_contain_text(
        "The response is not from the Plant Store"
    )
    expect(page.locator("#none")).to_be_hidden()


def test_a_change_keeps_the_focus_on_its_plant(page: Page, service: Service) -> None:
    service.change(NewPlant(1, "Abies"), NewPlant(2, "Rosa"))
    page.reload()

    choose(page, "Change", 2)
    store(page, name="Rosa × alba")

    expect(page.get_by_text("Changed: 2")).to_be_visible()
    assert [row[1] for row in rows(page)] == ["Abies", "Rosa × alba"]
    expect(page.get_by_role("button", name="Actions for plant 2")).to_be_focused()


def test_a_plant_deleted_elsewhere_disappears_when_its_deletion_fails(
    page: Page, service: Service
) -> None:
    service.change(NewPlant(1, "Abies"))
    page.reload()
    choose(page, "Delete", 1)
    service.change(Deletion(1))

    question = page.get_by_role("dialog", name="Delete this plant?")
    question.get_by_role("button", name="Delete", exact=True).click()
    expect(question).to_contain_text("No plant is stored under the id 1")
    page.keyboard.press("Escape")

    expect(page.get_by_text("no plants yet")).to_be_visible()


def test_without_session_storage_a_token_lasts_until_the_page_is_reloaded(
    context: BrowserContext, service: Service
) -> None:
    context.add_init_script(
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new Error('shut') } })"
    )
    page = context.new_page()

    enter(page, service, service.token())
    expect(page.get_by_text("no plants yet")).to_be_visible()
    page.reload()

    expect(page.get_by_label("Bearer token")).to_be_visible()


def test_a_browser_that_would_round_ids_is_refused_as_too_old(
    context: BrowserContext, service: Service
) -> None:
    context.add_init_script("delete JSON.rawJSON")
    page = context.new_page()

    page.goto(f"http://127.0.0.1:{service.port}")

    expect(page.locator("#fault")).to_contain_text("This browser is too old")
    expect(page.get_by_label("Bearer token")).to_be_hidden()
