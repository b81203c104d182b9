"""The API reference, in a real browser."""

from playwright.sync_api import BrowserContext, Locator, Page, expect

from plantstore.plants import NewPlant
from support.service import Service, stored_plants

BIG = 9223372036854775807


def open_reference(context: BrowserContext, service: Service) -> Page:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{service.port}/docs")
    expect(page.get_by_role("heading", name="Plant Store")).to_be_visible()
    return page


def operation(page: Page, name: str) -> Locator:
    """Open an operation and return it."""
    found = page.locator(f"[id$=-{name}]")
    found.locator(".opblock-summary-control").click()
    return found


def execute(found: Locator) -> Locator:
    """Try out an operation and return the response that is shown."""
    found.get_by_role("button", name="Execute").click()
    answer = found.locator(".live-responses-table")
    expect(answer).to_be_visible()
    return answer


def test_the_largest_id_is_stored_and_shown_with_a_token_that_the_reference_shares_with_the_page(
    context: BrowserContext, garden: Service, token: str
) -> None:
    page = open_reference(context, garden)
    create = operation(page, "createPlant")
    expect(execute(create)).to_contain_text('"message": "A bearer token is needed"')

    page.get_by_role("button", name="Authorize").first.click()
    page.locator(".dialog-ux").get_by_role("textbox").fill(f" {token} ")
    page.get_by_role("button", name="Apply credentials").click()
    page.get_by_role("button", name="Close", exact=True).click()
    create.locator("textarea").fill(f'{{"id": {BIG}, "name": "Big"}}')
    expect(execute(create)).to_contain_text('"name": "Big"')
    assert stored_plants(garden.database)[BIG] == NewPlant(BIG, "Big")
    to_page = page.locator("header").get_by_role("link", name="Plants")
    to_page.click()
    expect(page.locator("#count")).to_be_visible()
    page.get_by_role("link", name="API reference").click()
    show = operation(page, "getPlant")
    show.get_by_placeholder("id").fill(str(BIG))
    expect(execute(show)).to_contain_text(f'"id": {BIG},')

    page.get_by_role("button", name="Authorize").first.click()
    page.get_by_role("button", name="Remove authorization").click()
    page.get_by_role("button", name="Close", exact=True).click()
    to_page.click()
    expect(page.get_by_label("Access token")).to_be_visible()
