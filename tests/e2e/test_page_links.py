"""The page, in a real browser: links, what a token permits, and special displays."""

from playwright.sync_api import BrowserContext, Page, Route, expect

from plantstore.plants import NewPlant
from support.browser import Watch, assert_accessible, choose, enter, rows
from support.service import Service


def test_a_link_to_one_plant_opens_it_after_signing_in(
    context: BrowserContext, service: Service
) -> None:
    service.change(NewPlant(7, "Rosa canina", "Rosa"))
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{service.port}/#/plants/7")
    expect(page).to_have_title("Sign in · Plant Store")

    page.get_by_label("Bearer token").fill(service.token())
    page.keyboard.press("Enter")

    dialog = page.get_by_role("dialog", name="Change plant 7")
    expect(dialog.get_by_role("textbox", name="Name")).to_have_value("Rosa canina")
    page.reload()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.url == f"http://127.0.0.1:{service.port}/"
    page.get_by_role("link", name="Rosa canina").click()
    expect(dialog).to_be_visible()
    assert page.url.endswith("/#/plants/7")
    page.keyboard.press("Escape")
    page.goto(f"http://127.0.0.1:{service.port}/#/plants/8")
    expect(page.locator("#said")).to_have_text("No plant is stored under the id 8")


def test_what_the_scopes_of_the_token_do_not_permit_is_not_offered(
    context: BrowserContext, service: Service, watch: Watch
) -> None:
    service.change(NewPlant(7, "Rosa canina", "Rosa"))
    page = context.new_page()
    enter(page, service, service.token("plants:read"))

    expect(page.get_by_role("button", name="Export as CSV")).to_be_visible()
    assert rows(page) == [["7", "Rosa canina", "Rosa"]]
    expect(page.get_by_role("main").get_by_role("button")).to_have_count(1)
    expect(page.get_by_role("checkbox")).to_have_count(0)
    expect(page.get_by_text("Statistics")).to_be_hidden()
    page.get_by_role("link", name="Rosa canina").click()
    dialog = page.get_by_role("dialog", name="Plant 7")
    expect(dialog.get_by_role("textbox", name="Name")).not_to_be_editable()
    expect(dialog.get_by_role("button")).to_have_text(["Close"])
    assert not [url for url in watch.requests if url.endswith("/ids")]


def test_only_the_permitted_actions_are_in_the_menu(
    context: BrowserContext, service: Service
) -> None:
    service.change(NewPlant(7, "Rosa canina", "Rosa"))
    page = context.new_page()
    enter(page, service, service.token("plants:read", "plants:delete"))

    page.get_by_role("button", name="Actions for plant 7").click()
    expect(page.locator("#actions").get_by_role("button")).to_have_text(["Delete plant 7"])
    page.get_by_role("button", name="Delete plant 7").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()

    expect(page.locator("#said")).to_have_text("Deleted: 7")
    expect(page.get_by_role("button", name="Undo")).to_be_hidden()


def test_an_empty_store_offers_to_add_the_first_plant_or_to_import_a_file(page: Page) -> None:
    expect(page.locator("#start").get_by_role("button")).to_have_count(2)
    assert_accessible(page)

    with page.expect_file_chooser() as chooser:
        page.get_by_role("button", name="Import a CSV file").click()
    chooser.value.set_files(
        {"name": "plants.csv", "mimeType": "text/csv", "buffer": b"id,name\n1,Abies\n"}
    )

    expect(page.locator("#count")).to_have_text("1 plant")
    expect(page.locator("#start")).to_be_hidden()


def test_the_page_and_the_reference_work_under_a_path_prefix(
    context: BrowserContext, service: Service, watch: Watch
) -> None:
    def strip(route: Route) -> None:
        route.fulfill(response=route.fetch(url=route.request.url.replace("/garden/", "/")))

    context.route("**/garden/**", strip)
    garden = f"http://127.0.0.1:{service.port}/garden/"
    page = context.new_page()
    page.goto(garden)
    page.get_by_label("Bearer token").fill(service.token())
    page.keyboard.press("Enter")
    expect(page.get_by_text("no plants yet")).to_be_visible()

    page.get_by_role("link", name="API reference").click()
    page.locator("[id$=-getReadiness] .opblock-summary-control").click()
    page.locator("[id$=-getReadiness]").get_by_role("button", name="Execute").click()
    expect(page.locator(".live-responses-table")).to_contain_text("200")

    assert f"{garden}readyz" in watch.requests
    assert all(url.startswith(garden) for url in watch.requests)


def test_a_tag_too_long_for_a_url_is_not_a_link(page: Page, service: Service) -> None:
    service.change(NewPlant(1, "Abies", "A" * 40_000), NewPlant(2, "Rosa", "R" * 1000))

    page.reload()

    expect(page.locator("#plants tr")).to_have_count(2)
    expect(page.locator("#plants .tag a[href]")).to_have_text("R" * 1000)


def test_on_a_phone_nothing_is_wider_than_the_screen(
    context: BrowserContext, service: Service
) -> None:
    service.change(NewPlant(-(2**63), "Unbroken" * 100, "Tag" * 100), NewPlant(1, "Abies"))
    page = context.new_page()
    page.set_viewport_size({"width": 320, "height": 640})
    enter(page, service, service.token())
    assert len(rows(page)) == 2

    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    choose(page, "Change", 1)
    expect(page.get_by_role("dialog")).to_be_in_viewport(ratio=1)


def test_states_are_visible_in_forced_colours_and_texts_from_right_to_left_in_dialogs(
    page: Page, service: Service
) -> None:
    service.change(NewPlant(7, "ורד הכלב", "ורד"))
    page.emulate_media(forced_colors="active")
    page.reload()

    dot = "getComputedStyle(document.querySelector('#health'), '::before').backgroundColor"
    ground = "getComputedStyle(document.body).backgroundColor"
    expect(page.locator("#health")).to_have_text("Ready")
    assert page.evaluate(f"{dot} !== {ground}")
    page.get_by_role("checkbox", name="Select plant 7").check()
    expect(page.locator("#plants tr")).to_have_css("outline-style", "solid")
    page.get_by_role("link", name="ורד הכלב").click()

    expect(page.get_by_role("textbox", name="Name")).to_have_css("direction", "rtl")
    expect(page.get_by_role("textbox", name="Id")).to_have_css("direction", "ltr")
