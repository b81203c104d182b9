"""The page, in a real browser: no change and no typed text is lost without a question."""

import pytest
from playwright.sync_api import BrowserContext, Page, Route, expect

from plantstore.changes import Deletion, Replacement
from plantstore.plants import NewPlant, Plant
from support.browser import assert_accessible, choose, enter, rows, store
from support.postgres import wait_until
from support.service import Service, opened, stored_plants


@pytest.fixture
def filled(context: BrowserContext, service: Service) -> Page:
    """Return a page that lists three plants."""
    service.change(NewPlant(1, "Abies", "Pine"), NewPlant(2, "Rosa"), NewPlant(3, "Acer"))
    page = context.new_page()
    enter(page, service, service.token())
    assert len(rows(page)) == 3
    return page


def test_a_change_by_somebody_else_is_shown_and_not_overwritten_without_a_question(
    filled: Page, service: Service
) -> None:
    page = filled
    question = page.get_by_role("dialog", name="Somebody else has changed plant 1")

    choose(page, "Change", 1)
    expect(page.get_by_role("dialog")).to_be_visible()
    service.change(Replacement(1, Plant("Theirs", None)))
    store(page, name="Mine")
    expect(question).to_be_visible()
    assert page.locator("#versions td bdi").all_text_contents() == [
        "Theirs",
        "Mine",
        "(none)",
        "Pine",
    ]
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.get_by_role("textbox", name="Name")).to_have_value("Mine")
    store(page)
    question.get_by_role("button", name="Keep theirs").click()
    expect(page.locator("#plants .name").first).to_have_text("Theirs")
    assert stored_plants(service.database)[1] == NewPlant(1, "Theirs")
    expect(page.locator("#said")).to_be_empty()

    choose(page, "Change", 1)
    expect(page.get_by_role("textbox", name="Name")).to_have_value("Theirs")
    service.change(Replacement(1, Plant("Theirs again", None)))
    store(page, name="Mine")
    question.get_by_role("button", name="Save mine").click()
    expect(page.get_by_text("Changed: 1")).to_be_visible()
    assert stored_plants(service.database)[1] == NewPlant(1, "Mine")

    choose(page, "Change", 1)
    expect(page.get_by_role("dialog")).to_be_visible()
    service.change(Deletion(1))
    store(page, name="Mine again")
    deleted = page.get_by_role("dialog", name="Somebody else has deleted plant 1")
    deleted.get_by_role("button", name="Save mine").click()
    expect(page.locator("#plants .name").first).to_have_text("Mine again")


def test_a_plant_that_somebody_else_has_changed_is_shown_again_before_it_is_deleted(
    filled: Page, service: Service
) -> None:
    def interfere(route: Route) -> None:
        if route.request.method == "DELETE":
            service.change(Replacement(1, Plant("Changed at the last moment")))
        route.continue_()

    choose(filled, "Delete", 1)
    question = filled.get_by_role("dialog", name="Delete this plant?")
    delete = question.get_by_role("button", name="Delete", exact=True)
    service.change(Replacement(1, Plant("Rare", "Pine")))

    delete.click()
    expect(question).to_contain_text("Somebody else has changed what you want to delete")
    expect(question).to_contain_text("1: Rare")
    filled.route("**/plants/1", interfere, times=2)
    delete.click()
    expect(question).to_contain_text("1: Changed at the last moment")
    assert 1 in stored_plants(service.database)
    delete.click()

    expect(filled.get_by_text("Deleted: 1")).to_be_visible()
    assert set(stored_plants(service.database)) == {2, 3}


def test_a_deletion_is_undone_also_of_several_plants(filled: Page, service: Service) -> None:
    before = stored_plants(service.database)
    toast = filled.locator("#toast[role=status]")
    filled.get_by_role("checkbox", name="Select all").check()
    filled.get_by_role("checkbox", name="Select plant 2").uncheck()
    expect(filled.locator("#selected")).to_contain_text("2 selected")
    filled.locator("#selected").get_by_role("button", name="Delete").click()
    question = filled.get_by_role("dialog", name="Delete 2 plants?")
    expect(question).to_contain_text("1: Abies")
    question.get_by_role("button", name="Delete", exact=True).click()
    expect(toast).to_contain_text("Deleted: 2 plants")
    expect(toast).to_be_in_viewport(ratio=1)
    expect(filled.locator("#plants tr")).to_have_count(1)
    filled.get_by_role("searchbox").fill("Rosa")
    expect(filled.locator("#count")).to_have_text("1 plant")
    assert_accessible(filled)

    toast.get_by_role("button", name="Undo").click()

    expect(toast).to_contain_text("Stored again: 2 plants")
    assert stored_plants(service.database) == before
    expect(toast.get_by_role("button", name="Undo")).to_be_hidden()
    toast.get_by_role("button", name="Close").click()
    expect(toast).not_to_be_in_viewport()


def test_the_tag_of_several_plants_is_set_and_removed(filled: Page, service: Service) -> None:
    dialog = filled.get_by_role("dialog")
    for tag, expected in (("Tree", "Tree"), ("", None)):
        filled.get_by_role("checkbox", name="Select plant 1").check()
        filled.get_by_role("checkbox", name="Select plant 3").check()
        filled.get_by_role("button", name="Set tag").click()
        dialog.get_by_role("textbox", name="Tag").fill(tag)
        dialog.get_by_role("button", name="Set tag").click()
        expect(dialog).to_be_hidden()
        expect(filled.locator("#plants tr[data-id='1'] .tag")).to_have_text(tag)

        assert list(stored_plants(service.database).values()) == [
            NewPlant(1, "Abies", expected),
            NewPlant(2, "Rosa"),
            NewPlant(3, "Acer", expected),
        ]


def test_several_plants_are_added_with_ids_of_the_service(filled: Page, service: Service) -> None:
    filled.get_by_role("button", name="Add a plant").click()
    dialog = filled.get_by_role("dialog", name="Add a plant")
    id_ = dialog.get_by_role("textbox", name="Id")
    name = dialog.get_by_role("textbox", name="Name")
    expect(id_).to_have_value("4")
    expect(name).to_be_focused()
    name.fill("Ulmus")
    dialog.get_by_role("button", name="Store and add another").click()
    expect(dialog.get_by_role("status")).to_have_text("Stored: 4")
    expect(id_).to_have_value("5")
    expect(name).to_have_value("")
    expect(name).to_be_focused()
    filled.keyboard.press("Escape")
    expect(filled.locator("#said")).to_have_text("Stored: 4")
    assert len(rows(filled)) == 4
    filled.get_by_role("button", name="Add a plant").click()
    expect(id_).to_have_value("5")  # The unused id is offered again.

    dialog.get_by_role("button", name="Store", exact=True).click()
    question = filled.get_by_role("dialog", name="Store a plant without a name?")
    question.get_by_role("button", name="Enter a name").click()
    expect(name).to_be_focused()
    assert 5 not in stored_plants(service.database)
    dialog.get_by_role("button", name="Store", exact=True).click()
    question.get_by_role("button", name="Store without a name").click()
    expect(filled.locator("#said")).to_have_text("Stored: 5")


def test_escape_asks_before_typed_text_is_lost(filled: Page) -> None:
    question = filled.get_by_role("dialog", name="Discard what you typed?")
    choose(filled, "Change", 2)
    expect(filled.get_by_role("dialog")).to_be_visible()
    expect(filled).to_have_title("Change plant 2 · Plant Store")
    name = filled.get_by_role("textbox", name="Name")
    name.fill("Rosa canina")

    # A browser may close a dialog without asking if only Escape was pressed several times.
    for _ in range(5):
        filled.keyboard.press("Escape")
        expect(question.get_by_role("button", name="Keep typing")).to_be_focused()
        filled.keyboard.press("Escape")
        expect(question).to_be_hidden()
        expect(name).to_be_visible()
        expect(name).to_have_value("Rosa canina")
    filled.get_by_role("button", name="Cancel").click()
    question.get_by_role("button", name="Discard").click()

    expect(filled.get_by_role("dialog")).to_be_hidden()
    expect(filled).to_have_title("Plants · Plant Store")


def test_typed_text_survives_a_token_that_expires(
    context: BrowserContext, service: Service
) -> None:
    page = context.new_page()
    short = service.token(name="short")
    enter(page, service, short)
    page.get_by_role("button", name="Add a plant").click()
    page.get_by_role("textbox", name="Name").fill("Rosa canina")
    client = service.client(short)
    with opened(service.database) as opened_store:
        opened_store.revoke_token("short", 0)
    wait_until(lambda: client.send("GET", "/token").status == 401)
    client.close()

    store(page)
    sign_in = page.get_by_role("dialog", name="Sign in")
    expect(sign_in).to_contain_text("The token is revoked")
    sign_in.get_by_label("Bearer token").fill(service.token(name="other"))
    sign_in.get_by_role("button", name="Sign in").click()
    expect(sign_in).to_be_hidden()
    expect(page.get_by_role("textbox", name="Name")).to_have_value("Rosa canina")
    store(page)

    expect(page.get_by_text("Stored: 1")).to_be_visible()
    assert stored_plants(service.database) == {1: NewPlant(1, "Rosa canina")}
