"""The page, in a real browser: tokens, the state of the service, and accessibility."""

import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from plantstore.plants import NewPlant
from support.browser import (
    HURRY,
    SHUT_STORAGE,
    Watch,
    assert_accessible,
    choose,
    enter,
    export,
    rows,
)
from support.service import Service

SIXTY = [NewPlant(id_, "Abies balsamea", "Secret") for id_ in range(60)]

CUT = "This token is incomplete: copy all of it, from plst_"


def test_a_malformed_token_is_refused_and_a_valid_one_is_kept_until_its_tab_closes(
    context: BrowserContext, garden: Service, token: str, watch: Watch
) -> None:
    page = context.new_page()
    field = page.get_by_label("Access token")
    for typed, message in (
        ("plst_made-up", CUT),
        ("Zwölf Boxkämpfer €", CUT),
    ):
        enter(page, garden, typed)
        expect(page.locator("#token-error")).to_have_text(message)
        expect(field).to_be_focused()
    assert_accessible(page)
    for width in (390, 1280):
        page.set_viewport_size({"width": width, "height": 720})
    expect(field).to_be_focused()
    assert not [url for url in watch.requests if "/tags?" in url]

    enter(page, garden, f'"Bearer {token}"')
    expect(page.locator("#count")).to_be_visible()
    page.reload()
    expect(page.locator("#count")).to_be_visible()
    page.close()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{garden.port}")

    expect(page.get_by_label("Access token")).to_be_visible()
    storages = "[localStorage.length, sessionStorage.length, document.cookie]"
    assert page.evaluate(storages) == [0, 0, ""]


def test_a_new_tab_gets_the_token_of_an_open_one_and_signing_out_removes_all_from_both(
    open_page: Callable[..., Page], context: BrowserContext, garden: Service
) -> None:
    page = open_page(*SIXTY)
    choose(page, "Delete", 7)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Next").first.click()
    expect(page.locator("#plants .id").first).to_have_text("50")
    assert_accessible(page)
    other = context.new_page()
    other.goto(f"http://127.0.0.1:{garden.port}#/plants/7")
    expect(other.get_by_role("dialog", name="Edit plant 7")).to_be_visible()
    assert other.evaluate("localStorage.length") == 0
    other.keyboard.press("Escape")

    other.get_by_role("button", name="Sign out").click()

    expect(other.get_by_label("Access token")).to_be_focused()
    expect(page.get_by_label("Access token")).to_be_visible()
    assert page.url == f"http://127.0.0.1:{garden.port}/"
    for each in (page, other):
        assert not re.search("Abies|Secret", each.content())
    for way in (page.reload, page.go_back):
        way()
        expect(page.get_by_label("Access token")).to_be_visible()
        expect(page.locator("#token-error")).to_be_empty()
        assert "Abies" not in page.content()


def test_what_the_scopes_of_the_token_do_not_permit_is_not_offered(
    open_page: Callable[..., Page], garden: Service, watch: Watch
) -> None:
    rosa = NewPlant(7, "Rosa canina", "Rosa")
    page = open_page(rosa, secret=garden.token("plants:read", name="read"))
    buttons = page.get_by_role("main").get_by_role("button")
    assert rows(page) == [["7", "Rosa canina", "Rosa"]]
    expect(buttons).to_have_text(["Export", "Print", "Id", "Name"])
    expect(page.get_by_role("checkbox")).to_have_count(0)
    page.get_by_role("link", name="Rosa canina").click()
    dialog = page.get_by_role("dialog", name="Plant 7")
    expect(dialog.get_by_role("textbox", name="Name")).not_to_be_editable()
    expect(dialog.get_by_role("button")).to_have_text(["Close"])
    assert not [url for url in watch.requests if "/ids" in url]


def test_anyone_reads_public_plants_and_a_token_is_needed_only_to_change_them(
    context: BrowserContext, tmp_path: Path, watch: Watch
) -> None:
    with Service(tmp_path, "--public-read") as public:
        public.change(NewPlant(7, "Rosa canina", "Rosa"), NewPlant(8, "Acer"))
        page = context.new_page()
        page.goto(f"http://127.0.0.1:{public.port}#/plants/7")
        dialog = page.get_by_role("dialog", name="Plant 7")
        expect(dialog.get_by_role("textbox", name="Name")).not_to_be_editable()
        dialog.get_by_role("button", name="Close").click()
        expect(page).to_have_title("Plants · Plant Store")
        assert rows(page) == [["7", "Rosa canina", "Rosa"], ["8", "Acer", ""]]
        expect(page.get_by_role("main").get_by_role("button")).to_have_text(
            ["Export", "Print", "Id", "Name"]
        )
        expect(page.get_by_text(re.compile("token|sign in", re.IGNORECASE))).to_have_text("Sign in")
        assert b"Rosa canina" in export(page, "CSV")[1]
        page.get_by_role("link", name="Rosa", exact=True).click()
        expect(page.locator("#count")).to_have_text("1 plant")
        page.go_back()
        expect(page.locator("#count")).to_have_text("2 plants")
        needing = re.compile(r"/(ids|changes|token)\b(?!\.)")
        assert not [*filter(needing.search, watch.requests)]

        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_label("Access token")).to_be_focused()
        page.get_by_role("button", name="Cancel").click()
        expect(page.get_by_label("Access token")).to_be_hidden()
        page.get_by_role("button", name="Sign in").click()
        page.get_by_label("Access token").fill("plst_made-up")
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#token-error")).to_contain_text("incomplete")
        expect(page.locator("#count")).to_have_text("2 plants")
        assert_accessible(page)
        page.get_by_label("Access token").fill(public.token())
        page.get_by_role("button", name="Sign in").click()
        expect(page.locator("#add")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()

        expect(page.get_by_role("button", name="Sign in")).to_be_visible()
        expect(page.locator("#count")).to_have_text("2 plants")
        expect(page.locator("#add")).to_be_hidden()


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """Return a service that no other test uses."""
    with Service(tmp_path) as running:
        yield running


def test_the_page_shows_that_the_service_is_away_and_loads_the_list_when_it_recovers(
    context: BrowserContext, service: Service, watch: Watch
) -> None:
    context.add_init_script(HURRY)
    watch.service_goes_away = True
    service.change(*SIXTY)
    page = context.new_page()
    health = page.locator("#health")
    first = page.locator("#plants .id").first
    enter(page, service, service.token())
    expect(page.get_by_role("link", name="Next").first).to_be_visible()

    service.process.send_signal(signal.SIGSTOP)
    page.get_by_role("link", name="Next").first.click()
    expect(health).to_have_text("The service does not respond")
    expect(page.locator("#listing")).to_have_class(re.compile("stale"))
    expect(page.get_by_text("does not respond")).to_have_count(1)
    assert_accessible(page)
    expect(first).to_have_text("0")
    service.process.send_signal(signal.SIGCONT)
    expect(health).to_be_empty()
    expect(first).to_have_text("50")
    expect(page.locator("#listing")).not_to_have_class(re.compile("stale"))

    (service.folder / "plants.db").rename(service.folder / "moved.db")
    expect(health).to_contain_text("was moved")


def test_a_token_lasts_until_a_reload_without_session_storage_and_an_old_browser_takes_none(
    context: BrowserContext, open_page: Callable[..., Page]
) -> None:
    context.add_init_script(SHUT_STORAGE)
    page = open_page()
    expect(page.get_by_text("no plants yet")).to_be_visible()
    page.reload()
    expect(page.get_by_label("Access token")).to_be_visible()

    context.add_init_script("delete JSON.rawJSON")  # It would round ids.
    page.reload()
    expect(page.locator("#fault")).to_contain_text("This browser is too old")
    expect(page.get_by_label("Access token")).to_be_hidden()
