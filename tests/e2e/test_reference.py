"""The API reference, in a real browser."""

import json
import re
from pathlib import Path
from typing import Literal

import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import BrowserContext, Locator, Page, expect

from plantstore.plants import NewPlant
from plantstore.web import read_document
from support.service import Service, stored_plants

METHODS = ("get", "post", "put", "patch", "delete")
BIG = 9223372036854775807
LOCK = Path(__file__).parents[2] / "tools/javascript/package-lock.json"


@pytest.fixture
def reference(context: BrowserContext, service: Service) -> Page:
    return open_reference(context, service)


def open_reference(context: BrowserContext, service: Service) -> Page:
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


def status(answer: Locator) -> Locator:
    return answer.locator("tbody .response-col_status")


def test_the_reference_shows_every_operation_but_head_and_options_without_a_warning(
    reference: Page,
) -> None:
    paths = json.loads(read_document())["paths"].values()
    methods = sorted(method for path in paths for method in path if method in METHODS)

    shown = reference.locator(".opblock-summary-method")

    expect(shown).to_have_count(len(methods))
    assert sorted(map(str.lower, shown.all_text_contents())) == methods
    expect(reference.get_by_text("OAS 3.1")).to_be_visible()
    expect(reference.get_by_text("Warning")).to_be_hidden()


def test_the_copy_of_swagger_ui_has_the_version_in_the_lock_file(reference: Page) -> None:
    packages = json.loads(LOCK.read_bytes())["packages"]

    version = reference.evaluate("versions.swaggerUI.version")

    assert version == packages["node_modules/swagger-ui-dist"]["version"]


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


def test_a_token_of_the_page_is_used_by_the_reference(page: Page) -> None:
    page.get_by_role("link", name="API reference").click()

    answer = execute(operation(page, "listPlants"))

    expect(status(answer)).to_have_text("200")


def test_a_token_of_the_reference_is_used_by_the_page_until_it_is_removed(
    reference: Page, service: Service
) -> None:
    authorize(reference, f" {service.token()} ")
    reference.locator("header").get_by_role("link").click()
    expect(reference.get_by_text("no plants yet")).to_be_visible()
    reference.get_by_role("link", name="API reference").click()

    reference.get_by_role("button", name="Authorize").first.click()
    reference.get_by_role("button", name="Remove authorization").click()
    reference.get_by_role("button", name="Close", exact=True).click()

    expect(status(execute(operation(reference, "listPlants")))).to_have_text("401")
    reference.locator("header").get_by_role("link").click()
    expect(reference.get_by_label("Bearer token")).to_be_visible()


def test_signing_out_on_the_page_removes_the_token_of_the_reference(page: Page) -> None:
    page.get_by_role("link", name="API reference").click()
    expect(page.locator(".authorize.locked")).to_be_visible()
    page.go_back()
    page.get_by_role("button", name="Sign out").click()
    page.get_by_role("link", name="API reference").click()

    answer = execute(operation(page, "listPlants"))

    expect(status(answer)).to_have_text("401")


def test_without_session_storage_the_reference_keeps_a_token_until_it_is_reloaded(
    context: BrowserContext, service: Service
) -> None:
    context.add_init_script(
        "Object.defineProperty(window, 'sessionStorage', { get() { throw new Error('shut') } })"
    )
    page = open_reference(context, service)

    authorize(page, service.token())

    expect(status(execute(operation(page, "listPlants")))).to_have_text("200")


def test_the_reference_follows_the_color_scheme_of_the_browser(
    context: BrowserContext, service: Service
) -> None:
    page = context.new_page()
    page.emulate_media(color_scheme="dark")
    page.goto(f"http://127.0.0.1:{service.port}/docs")
    expect(page.get_by_role("heading", name="Plant Store")).to_be_visible()
    dark_title, dark_page = brightness(page)

    page.emulate_media(color_scheme="light")

    expect(page.locator("html.dark-mode")).to_have_count(0)
    light_title, light_page = brightness(page)
    assert dark_title > light_title
    assert dark_page < light_page


def brightness(page: Page) -> list[int]:
    """Return the brightness of the title and of the page behind it."""
    found: list[str] = page.evaluate(
        "[getComputedStyle(document.querySelector('.title')).color,"
        " getComputedStyle(document.documentElement).backgroundColor]"
    )
    return [sum(map(int, re.findall(r"\d+", color))) for color in found]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_axe_finds_only_that_swagger_ui_nests_links_in_buttons(
    context: BrowserContext, service: Service, scheme: Literal["light", "dark"]
) -> None:
    page = open_reference(context, service)
    page.emulate_media(color_scheme=scheme)
    expect(page.locator("html.dark-mode")).to_have_count(int(scheme == "dark"))

    assert violations(page) == {"nested-interactive"}
    execute(operation(page, "createPlant"))
    assert violations(page) == {"nested-interactive"}
    page.get_by_role("button", name="Authorize").first.click()
    assert violations(page) == {"nested-interactive"}


def violations(page: Page) -> set[str]:
    """Return the rules of axe with serious or critical violations."""
    found = Axe().run(page).response["violations"]
    return {each["id"] for each in found if each["impact"] in {"serious", "critical"}}


def test_the_reference_does_not_move_while_it_loads(
    context: BrowserContext, service: Service
) -> None:
    context.add_init_script(
        "window.moved = 0; new PerformanceObserver((list) => {"
        "  for (const shift of list.getEntries()) window.moved += shift.value;"
        "}).observe({ type: 'layout-shift', buffered: true })"
    )
    page = open_reference(context, service)
    expect(page.get_by_role("heading", name="Schemas")).to_be_visible()

    assert page.evaluate("window.moved") < 0.01


def test_the_reference_loads_half_a_megabyte_once_and_nothing_big_again(
    reference: Page,
) -> None:
    sizes = "performance.getEntriesByType('resource').map(each => each.transferSize)"

    first: list[int] = reference.evaluate(sizes)
    reference.reload()
    expect(reference.locator(".opblock").first).to_be_visible()
    again: list[int] = reference.evaluate(sizes)

    assert 400_000 < sum(first) < 550_000
    assert sum(again) < 20_000
