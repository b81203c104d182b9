"""The page, in a real browser: plants are added, changed and deleted, and no change is lost."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from plantstore.changes import Replacement
from plantstore.plants import NewPlant, Plant
from support.browser import HURRY, Held, Watch, assert_accessible, choose, enter, rows, store
from support.postgres import wait_until
from support.service import Service, opened, stored_plants

# Ids that JavaScript would round. Beyond the largest id, the service would give no other ids.
BIG, BESIDE = -9223372036854775807, -9223372036854775806

THREE = [NewPlant(1, "Abies", "Pine"), NewPlant(2, "Rosa"), NewPlant(3, "Acer")]


def test_a_plant_is_added_changed_deleted_and_restored_without_rounding_its_id(
    open_page: Callable[..., Page], garden: Service
) -> None:
    beside = NewPlant(BESIDE, "Beside", "Rosa")
    page = open_page(beside)
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_role("textbox", name="Id")

    page.get_by_role("button", name="Add a plant").click()
    expect(field).not_to_have_value("")  # the free id
    dialog.get_by_role("textbox", name="Name").fill("beside")
    namesake = page.locator("#namesake")
    expect(namesake).to_have_text(f"Another plant has this name: {BESIDE}")
    for id_, message in (
        (str(BESIDE), f"Id {BESIDE} is Beside. Open it"),
        (str(2**63), "`id` must be an integer from"),
    ):
        store(page, id=id_, name="Rosa × damascena")
        expect(page.locator("#plant-id-error")).to_contain_text(message)
        expect(field).to_be_focused()
        expect(field).to_have_attribute("aria-invalid", "true")
    assert_accessible(page)
    for id_, name in (("x", "Rosa"), (str(BIG), "")):
        store(page, id=id_, name=name)
        expect(dialog.locator(":focus:invalid")).to_have_count(1)
    dialog.get_by_role("textbox", name="Name").fill("Rosa × damascena")
    held = Held(page, "**/plants", "POST")
    field.fill(str(BIG))
    for _ in range(3):
        dialog.get_by_role("button", name="Save", exact=True).click()
    expect(dialog.get_by_role("status")).to_have_text("Waiting for the service…")
    assert_accessible(page)
    held.let_go()
    expect(page.get_by_text(f"Saved: {BIG}")).to_be_visible()
    assert len(held.routes) == 1
    assert rows(page) == [[str(BIG), "Rosa × damascena", ""], [str(BESIDE), "Beside", "Rosa"]]

    choose(page, "Edit", BIG)
    expect(page).to_have_title(f"Edit plant {BIG} · Plant Store")
    store(page, name="\u00a0Bigger\u00a0", tag=" Rosa")
    expect(page.locator("#said")).to_have_text(f"Saved: {BIG} Bigger")
    assert [row[1] for row in rows(page)] == ["Bigger", "Beside"]
    expect(page.locator("#plants").get_by_role("link", name="Bigger")).to_be_focused()
    changed = [NewPlant(BIG, "Bigger", "Rosa"), beside]
    assert list(stored_plants(garden.database).values()) == changed

    question = page.get_by_role("dialog", name="Delete this plant?")
    choose(page, "Delete", BIG)
    expect(question).to_contain_text(f"{BIG}: Bigger")
    assert_accessible(page)
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_be_hidden()
    assert len(stored_plants(garden.database)) == 2
    choose(page, "Delete", BIG)
    question.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_text(f"Deleted: {BIG}")).to_be_visible()
    assert [row[0] for row in rows(page)] == [str(BESIDE)]
    assert list(stored_plants(garden.database).values()) == [beside]

    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_text(f"Restored: {BIG}")).to_be_visible()
    assert list(stored_plants(garden.database).values()) == changed


def test_a_change_by_somebody_else_is_not_overwritten_without_a_question(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*THREE)
    question = page.get_by_role("dialog", name="Somebody else has changed plant 1")
    name = page.get_by_role("textbox", name="Name")
    choose(page, "Edit", 1)
    expect(name).to_have_value("Abies")
    garden.change(Replacement(1, Plant("Theirs", None)))

    store(page, name="Mine")
    versions = page.locator("#versions td bdi")
    expect(versions).to_have_text(["Theirs", "Mine"])
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(question).to_be_hidden()
    expect(name).to_have_value("Mine")
    assert stored_plants(garden.database)[1] == NewPlant(1, "Theirs")
    store(page)
    question.get_by_role("button", name="Save mine").click()
    expect(page.get_by_text("Saved: 1 Mine")).to_be_visible()
    assert stored_plants(garden.database)[1] == NewPlant(1, "Mine")


def test_escape_asks_before_typed_text_is_lost(open_page: Callable[..., Page]) -> None:
    page = open_page(*THREE)
    question = page.get_by_role("dialog", name="Discard what you entered?")
    choose(page, "Edit", 2)
    name = page.get_by_role("textbox", name="Name")
    name.fill("Rosa canina")

    # A browser may close a dialog without asking if only Escape was pressed several times.
    for _ in range(5):
        page.keyboard.press("Escape")
        expect(question.get_by_role("button", name="Keep editing")).to_be_focused()
        page.keyboard.press("Escape")
        expect(question).to_be_hidden()
        expect(name).to_be_visible()
        expect(name).to_have_value("Rosa canina")
    page.get_by_role("button", name="Cancel").click()
    assert_accessible(page)
    question.get_by_role("button", name="Discard").click()

    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page).to_have_title("Plants · Plant Store")


def test_typed_text_survives_the_revocation_of_the_token_and_other_plants_disappear(
    open_page: Callable[..., Page], garden: Service, token: str
) -> None:
    secret = garden.token(name="short")
    page = open_page(NewPlant(1, "Abies"), secret=secret)
    name = page.get_by_role("textbox", name="Name")
    page.get_by_role("button", name="Add a plant").click()
    name.fill("Rosa canina")
    client = garden.client(secret)
    with opened(garden.database) as opened_store:
        opened_store.revoke_token("short", 0)
    wait_until(lambda: client.send("GET", "/token").status == 401)
    client.close()

    # The list may have been read meanwhile, and have led to the question already.
    page.locator("dialog button[value=save]").dispatch_event("click")
    sign_in = page.get_by_role("dialog", name="Sign in")
    expect(sign_in).to_contain_text("The token is revoked")
    sign_in.get_by_label("Access token").fill(token)
    sign_in.get_by_role("button", name="Sign in").click()
    expect(sign_in).to_be_hidden()
    expect(name).to_have_value("Rosa canina")
    store(page)
    expect(page.locator("#plants .name")).to_have_text(["Abies", "Rosa canina"])

    page.evaluate("token => sessionStorage.setItem('plantstore.token', token)", secret)
    page.reload()  # now without a dialog
    expect(page.locator("#token-error")).to_have_text("The token is revoked")
    assert "Abies" not in page.content()


def test_what_others_change_is_shown_without_a_reload_also_after_a_restart(
    context: BrowserContext, watch: Watch, tmp_path: Path
) -> None:
    context.add_init_script(HURRY)
    watch.service_goes_away = True
    page = context.new_page()
    names = page.locator("#plants .name")
    big = NewPlant(BIG, "Abies", "Pine")
    with Service(tmp_path) as service:
        service.change(big, *THREE[1:])
        enter(page, service, service.token())
        expect(names).to_have_text(["Abies", "Rosa", "Acer"])
        page.get_by_role("checkbox", name=f"Select plant {BIG}").check()
        names.get_by_role("link").nth(2).focus()
        page.evaluate("window.isSame = true")
        with service.client(service.token(name="other")) as other:
            changed = other.send_record("PUT", f"/plants/{BIG}", "Theirs", "Pine")
            assert changed.status == 200
            expect(names).to_have_text(["Theirs", "Rosa", "Acer"])
            assert other.send("DELETE", "/plants/2").status == 204
            expect(names).to_have_text(["Theirs", "Acer"])
        expect(page.locator("#count")).to_have_text("2 plants")
        expect(names.get_by_role("link").nth(1)).to_be_focused()
        choose(page, "Edit", 3)
        page.get_by_role("textbox", name="Name").fill("Acer rubrum")

    service.change(Replacement(BIG, Plant("Meanwhile", None)))
    with Service(tmp_path, "--port", str(service.port)) as again:
        again.change(NewPlant(4, "Later"))
        expect(page.locator("#health")).to_be_empty()
        expect(page.get_by_role("textbox", name="Name")).to_have_value("Acer rubrum")
        store(page)
        expect(page.get_by_text("Saved: 3")).to_be_visible()
        expect(names).to_have_text(["Meanwhile", "Acer rubrum", "Later"])

        expect(page.get_by_role("checkbox", name=f"Select plant {BIG}")).to_be_checked()
        assert page.evaluate("window.isSame")
        page.close()


def select_all(page: Page, many: int) -> None:
    page.get_by_role("checkbox", name="Select all of this page").click()
    page.get_by_role("button", name=f"Select all {many:,}").click()
    expect(page.locator("#selected")).to_contain_text(f"{many:,} selected")


def test_more_than_a_thousand_plants_are_deleted_and_restored_with_one_request_each(
    open_page: Callable[..., Page], garden: Service, watch: Watch
) -> None:
    plants = {id_: NewPlant(id_, f"Abies {id_}", "Pine") for id_ in range(1, 2_501)}
    page = open_page(*plants.values())
    dialog, said = page.get_by_role("dialog"), page.locator("#said")
    select_all(page, 2_500)
    page.locator("#selected").get_by_role("button", name="Delete").click()
    assert_accessible(page)

    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(said).to_have_text("2,500 plants deleted")
    expect(page.get_by_text("There are no plants yet")).to_be_visible()
    assert not stored_plants(garden.database)
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(said).to_have_text("2,500 plants restored")
    expect(page.locator("#count")).to_have_text("2,500 plants")

    assert stored_plants(garden.database) == plants
    changes = [
        url for url in watch.requests if re.search(r"/(changes|undo|plants/\d+)(\?set|$)", url)
    ]
    assert [re.sub(r".*/|\?.*", "", url) for url in changes] == ["changes", "undo"]


def test_plants_that_somebody_else_has_changed_are_changed_only_after_a_question(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*(NewPlant(id_, "Abies", "Pine") for id_ in range(1, 1_201)))
    dialog = page.get_by_role("dialog", name="Set the tag of 1,200 plants")
    question = page.get_by_role("dialog", name="Somebody else has changed 2 plants")
    select_all(page, 1_200)
    page.locator("#selected").get_by_role("button", name="Set tag").click()
    theirs = {1: NewPlant(1, "Abies", "Theirs"), 1_200: NewPlant(1_200, "Abies", "Theirs")}
    garden.change(Replacement(7, Plant("Rosa", "Pine")))
    garden.change(*(Replacement(id_, Plant("Abies", "Theirs")) for id_ in theirs))

    dialog.get_by_role("combobox", name="Tag").fill("Fir")
    dialog.get_by_role("button", name="Set tag").click()
    expect(page.locator("#versions td bdi")).to_have_text(["Theirs", "Fir"] * 2)
    assert_accessible(page)
    question.get_by_role("button", name="Keep theirs").click()

    expect(page.locator("#said")).to_have_text("1,198 plants now have the tag Fir")
    stored = stored_plants(garden.database)
    assert {id_: stored[id_] for id_ in theirs} == theirs
    assert stored[7] == NewPlant(7, "Rosa", "Fir")
    assert sum(plant.tag == "Fir" for plant in stored.values()) == 1_198


def test_a_change_of_many_plants_is_stopped_and_the_page_says_how_many_were_changed(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*(NewPlant(id_, "Abies", "Pine") for id_ in range(1, 1_101)))
    dialog, said = page.get_by_role("dialog"), page.locator("#said")
    held = Held(page, "**/changes", "POST")
    select_all(page, 1_100)
    page.locator("#selected").get_by_role("button", name="Delete").click()

    dialog.get_by_role("button", name="Delete", exact=True).click()
    wait_until(lambda: page.evaluate("true") and len(held.routes) > 0)
    assert_accessible(page)
    dialog.get_by_role("button", name="Stop").click()

    expect(said).to_have_text("Stopped: nothing was changed")
    expect(dialog).to_be_hidden()
    assert len(stored_plants(garden.database)) == 1_100


def test_plants_that_share_a_name_are_merged_and_this_is_undone(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*THREE, NewPlant(4, "ROSA"), NewPlant(5, "Rosa", "Bed"))
    page.get_by_role("button", name="Find duplicates").click()
    dialog = page.get_by_role("dialog", name="Find duplicates")
    expect(dialog.get_by_role("group")).to_have_count(1)
    assert_accessible(page)

    dialog.get_by_role("radio", name="5 Rosa").check()
    dialog.get_by_role("button", name="Merge").click()
    expect(dialog.get_by_role("group")).to_have_count(0)
    dialog.get_by_role("button", name="Close").click()
    expect(page.locator("#plants .id")).to_have_text(["1", "3", "5"])
    page.get_by_role("button", name="Undo", exact=True).click()

    expect(page.locator("#said")).to_have_text("2 plants restored")
    assert len(stored_plants(garden.database)) == 5


def test_the_dialog_of_a_plant_leads_to_its_neighbours_saves_it_and_deletes_it(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*THREE)
    name = page.get_by_role("textbox", name="Name")
    following = page.get_by_role("button", name="Next plant")

    page.get_by_role("link", name="Abies").click()
    assert_accessible(page)
    following.click()
    expect(name).to_have_value("Rosa")
    name.fill("")
    following.click()
    expect(name).to_be_focused()  # A plant has a name.
    name.fill("Rosa × alba")
    following.click()
    expect(page).to_have_url(re.compile("#/plants/3$"))
    expect(name).to_have_value("Acer")
    expect(following).to_be_hidden()
    page.get_by_role("dialog").get_by_role("button", name="Delete").click()
    question = page.get_by_role("dialog", name="Delete this plant?")
    question.get_by_role("button", name="Delete").click()

    expect(page.locator("#count")).to_have_text("2 plants")
    assert [plant.name for plant in stored_plants(garden.database).values()] == [
        "Abies",
        "Rosa × alba",
    ]


def test_back_closes_the_dialog_and_typed_text_is_lost_only_after_a_question(
    open_page: Callable[..., Page], context: BrowserContext, garden: Service
) -> None:
    page = open_page(*THREE)
    name = page.get_by_role("textbox", name="Name")
    page.get_by_role("searchbox", name="Search").fill("a")
    expect(page.locator("#count")).to_have_text("2 plants")

    page.get_by_role("button", name="Add a plant").click()
    page.go_back()
    expect(name).to_be_hidden()
    page.get_by_role("link", name="Abies").click()
    name.fill("Abies alba")
    page.go_back()
    page.get_by_role("button", name="Keep editing").click()
    expect(name).to_have_value("Abies alba")
    with page.expect_event("dialog") as question:
        page.evaluate("setTimeout(() => location.reload())")
    assert question.value.type == "beforeunload"
    question.value.dismiss()
    other = context.new_page()
    other.goto(f"http://127.0.0.1:{garden.port}")
    other.get_by_role("button", name="Sign out").click()
    expect(other.get_by_label("token")).to_be_visible()
    page.get_by_role("dialog", name="Sign out").get_by_role("button", name="Stay here").click()
    expect(name).to_have_value("Abies alba")
    page.go_back()
    page.get_by_role("button", name="Discard").click()

    expect(name).to_be_hidden()
    expect(page.locator("#count")).to_have_text("2 plants")
    page.get_by_role("button", name="Sign out").click()
    expect(page.get_by_label("token")).to_be_visible()
