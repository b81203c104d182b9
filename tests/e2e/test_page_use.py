"""The page, in a real browser: tokens, the state of the service, and accessibility."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from plantstore.plants import NewPlant
from support.browser import Watch, assert_accessible, choose, enter, rows, store
from support.postgres import wait_until
from support.service import Service, opened


@pytest.mark.parametrize(
    ("token", "message"),
    [
        ("", "The token is empty"),
        ("plst_made-up", "The token is malformed: its checksum does not match"),
        ("Zwölf Boxkämpfer €", "The token is malformed: it contains invalid characters"),
    ],
)
def test_a_malformed_token_is_refused_with_a_message_at_its_field(
    context: BrowserContext, service: Service, token: str, message: str
) -> None:
    page = context.new_page()

    enter(page, service, token)

    expect(page.locator("#token-error")).to_have_text(message)
    expect(page.get_by_label("Bearer token")).to_be_focused()
    enter(page, service, service.token())
    expect(page.get_by_text("no plants yet")).to_be_visible()


def test_a_token_survives_a_reload_and_is_forgotten_when_the_tab_closes(
    context: BrowserContext, service: Service
) -> None:
    page = context.new_page()
    enter(page, service, service.token())
    page.reload()
    expect(page.get_by_text("no plants yet")).to_be_visible()

    page.close()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{service.port}")

    expect(page.get_by_label("Bearer token")).to_be_visible()
    assert page.evaluate("[localStorage.length, sessionStorage.length, document.cookie]") == [
        0,
        0,
        "",
    ]


def test_signing_out_removes_the_token_and_all_plants_from_the_page(
    page: Page, service: Service
) -> None:
    service.change(*(NewPlant(id_, "Abies balsamea", "Secret") for id_ in range(60)))
    page.reload()
    choose(page, "Delete", 7)
    page.keyboard.press("Escape")
    page.get_by_role("link", name="Next").first.click()
    expect(page.locator("#plants .id").first).to_have_text("50")
    page.get_by_text("Statistics").click()

    page.get_by_role("button", name="Sign out").click()

    expect(page.get_by_label("Bearer token")).to_be_focused()
    assert page.url == f"http://127.0.0.1:{service.port}/"
    assert not re.search("Abies|Secret|Changes", page.content())
    for way in (page.reload, page.go_back):
        way()
        expect(page.get_by_label("Bearer token")).to_be_visible()
        expect(page.locator("#token-error")).to_be_empty()
        assert "Abies" not in page.content()


def test_after_its_token_is_revoked_the_page_asks_for_a_token_and_shows_the_reason(
    context: BrowserContext, service: Service
) -> None:
    page = context.new_page()
    enter(page, service, service.token(name="short"))
    expect(page.get_by_text("no plants yet")).to_be_visible()
    with opened(service.database) as store:
        store.revoke_token("short", 0)

    reason = page.locator("#token-error:not(:empty)")

    def is_refused() -> bool:  # The service may accept the revoked token for one more second.
        page.reload()
        expect(page.locator("#start:visible, #token-error:visible")).to_be_visible()
        return reason.is_visible()

    wait_until(is_refused)
    expect(reason).to_have_text("The token is revoked")


def test_with_a_create_only_token_the_page_creates_plants_and_offers_nothing_else(
    context: BrowserContext, service: Service
) -> None:
    page = context.new_page()
    enter(page, service, service.token("plants:create"))

    listing_error = page.locator("#listing-error")
    expect(listing_error).to_have_text("The token lacks the scope plants:read")
    buttons = page.get_by_role("main").get_by_role("button")
    expect(buttons).to_have_text(["Add a plant", ""])  # The second one chooses a file.
    page.get_by_role("button", name="Add a plant").click()
    store(page, id="1", name="Abies")

    expect(page.get_by_text("Stored: 1")).to_be_visible()


def test_the_page_shows_the_statistics_of_the_service(page: Page) -> None:
    page.get_by_role("button", name="Add a plant").click()
    store(page, id="1", name="Abies")
    expect(page.get_by_text("Stored: 1")).to_be_visible()

    page.get_by_role("button", name="Add a plant").click()
    store(page, id="one", name="Abies")
    expect(page.locator("#plant-id-error")).to_be_visible()
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Discard").click()

    page.get_by_text("Statistics").click()

    expect(page.locator("#counts dl")).to_contain_text("Changes: stored1")
    expect(page.locator("#counts dl")).to_contain_text("Refused: invalid plant1")
    expect(page.locator("#counts dt")).to_have_text(["Changes: stored", "Refused: invalid plant"])


def test_the_page_shows_when_the_database_or_the_service_is_unavailable(
    page: Page, service: Service, watch: Watch, tmp_path: Path
) -> None:
    health = page.locator("#health")
    expect(health).to_have_text("Ready")
    page.clock.install()
    page.reload()

    (tmp_path / "plants.db").rename(tmp_path / "moved.db")
    expect_after(page, "was moved")
    service.stop()
    watch.service_goes_away = True
    expect_after(page, "The service does not respond")


def expect_after(page: Page, words: str) -> None:
    """Expect these words in the state of the service after one of the next refreshes."""
    health = page.locator("#health")
    for _ in range(20):
        page.clock.fast_forward(5000)
        if words in (health.text_content() or ""):
            return
        page.wait_for_timeout(100)
    expect(health).to_contain_text(words)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_no_violation(context: BrowserContext, service: Service, scheme: str) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    service.change(*(NewPlant(id_, f"Plant {id_}", "Abies") for id_ in range(60)))

    enter(page, service, "none")
    expect(page.locator("#token-error")).to_be_visible()
    assert_accessible(page)
    enter(page, service, service.token())
    expect(page.get_by_role("link", name="Next").first).to_be_visible()
    page.get_by_text("Statistics").click()
    assert_accessible(page)
    page.get_by_role("button", name="Add a plant").click()
    store(page, id="1", name="Another")
    expect(page.locator("#plant-id-error")).to_be_visible()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog", name="Discard")).to_be_visible()
    assert_accessible(page)
    page.get_by_role("button", name="Discard").click()
    choose(page, "Delete", 7)
    assert_accessible(page)
    page.keyboard.press("Escape")
    rejected = b"id,name\n1,Another\n61,New\n"
    page.locator("#file").set_input_files(
        {"name": "plants.csv", "mimeType": "text/csv", "buffer": rejected}
    )
    expect(page.get_by_text("Import finished")).to_be_visible()
    assert_accessible(page)


def test_every_operation_works_with_the_keyboard(context: BrowserContext, service: Service) -> None:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{service.port}")

    def press(*keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)

    def reach(name: str) -> None:
        for _ in range(20):
            press("Tab")
            if name in (page.locator(":focus").text_content() or ""):
                return
        pytest.fail(f"the keyboard does not reach {name}")

    page.keyboard.type(service.token())
    press("Enter")
    expect(page.get_by_text("no plants yet")).to_be_visible()
    reach("Add a plant")
    press("Enter")
    expect(page.get_by_role("textbox", name="Id")).to_have_value("1")
    page.keyboard.type("Abies balsamea")
    press("Enter")
    expect(page.get_by_text("Stored: 1")).to_be_visible()
    expect(page.get_by_role("button", name="Add a plant")).to_be_focused()
    assert len(rows(page)) == 1
    reach("⋯")
    press("Enter", "Enter")
    expect(page.get_by_role("dialog", name="Change plant 1")).to_be_visible()
    page.keyboard.type("Abies alba")
    press("Escape")
    reach("Discard")
    press("Enter")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("button", name="Actions for plant 1")).to_be_focused()
    press("Enter", "Tab", "Enter")
    expect(page.get_by_role("dialog", name="Delete this plant?")).to_be_visible()
    press("Tab", "Enter")
    expect(page.get_by_text("Deleted: 1")).to_be_visible()
    assert not rows(page)
    expect(page.get_by_role("heading", name="Plants")).to_be_focused()


def test_the_option_no_page_disables_the_page_and_the_reference(tmp_path: Path) -> None:
    with Service(tmp_path, "--no-page") as service:
        client = service.client(None)
        statuses = [client.send("GET", path).status for path in ("/", "/docs", "/openapi.json")]
        client.close()

    assert statuses == [404, 404, 200]
    assert not re.search("browser", service.said)
