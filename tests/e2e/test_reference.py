"""The API reference, in a real browser."""

import re

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from plantstore.api.openapi import read_document
from plantstore.plants import NewPlant
from support.service import Service, stored_plants

pytestmark = pytest.mark.engines("sqlite")

BIG = 9223372036854775807


@pytest.fixture
def reference(context: BrowserContext, service: Service) -> Page:
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{service.port}/docs")
    expect(page.get_by_role("heading", name="Plant Store")).to_be_visible()
    return page


def authorize(page: Page, token: str) -> None:
    page.get_by_role("button", name="Authorize").first.click()
    dialog = page.locator(".dialog-ux")
    dialog.get_by_role("textbox").fill(token)
    dialog.get_by_role("button", name="Apply credentials").click()
    dialog.get_by_role("button", name="Close", exact=True).click()


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


def test_the_reference_shows_every_operation_without_a_warning(reference: Page) -> None:
    operations = re.findall(rb'"operationId": "\w+",\n +"summary"', read_document())

    expect(reference.locator(".opblock")).to_have_count(len(operations))
    expect(reference.get_by_text("OAS 3.1")).to_be_visible()
    expect(reference.get_by_text("Warning")).to_be_hidden()


def test_the_pattern_of_the_openapi_document_works_in_javascript(reference: Page) -> None:
    [pattern] = set(re.findall(r'"pattern": "(.*?)"', read_document().decode()))
    matches = f"text => new RegExp('{pattern}', 'u').test(text)"

    assert reference.evaluate(matches, "line\nbreak ×")
    assert not reference.evaluate(matches, "a\0b")


def test_the_reference_shows_the_refusal_of_a_request_without_a_token(reference: Page) -> None:
    answer = execute(operation(reference, "createPlant"))

    expect(answer).to_contain_text("401")
    expect(answer).to_contain_text('"message": "A bearer token is needed"')


def test_the_reference_stores_and_shows_the_largest_id_without_rounding(
    reference: Page, service: Service
) -> None:
    authorize(reference, service.token())
    create = operation(reference, "createPlant")
    create.locator("textarea").fill(f'{{"id": {BIG}, "name": "Big"}}')

    expect(execute(create)).to_contain_text('"name": "Big"')

    assert stored_plants(service.database) == {BIG: NewPlant(BIG, "Big")}
    listing = operation(reference, "listPlants")
    listing.get_by_placeholder("after").fill(str(BIG - 1))
    expect(execute(listing)).to_contain_text(f'"id": {BIG},')
    show = operation(reference, "getPlant")
    show.get_by_placeholder("id").fill(str(BIG))
    expect(execute(show)).to_contain_text(f'"id": {BIG},')


def test_the_reference_shows_a_response_that_is_not_json(reference: Page, service: Service) -> None:
    authorize(reference, service.token())

    answer = execute(operation(reference, "getMetrics"))

    expect(answer).to_contain_text("# HELP http_server_request_duration_seconds")
