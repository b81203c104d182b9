"""The page, in a real browser: one journey for each task. tests/page tests its logic in Node."""

import re
from collections.abc import Callable
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from plantstore.changes import Replacement
from plantstore.plants import NewPlant, Plant
from support.browser import (
    HURRY,
    SHUT_STORAGE,
    Watch,
    assert_accessible,
    choose,
    drop,
    enter,
    export,
    import_rows,
    moved,
    rows,
    store,
)
from support.postgres import wait_until
from support.service import Service, opened, stored_plants

# Texts that are dangerous unless they are shown as text: scripts, markup, text direction, formulas.
HOSTILE = [
    "<img src=x onerror=window.hacked=1>",
    "<script>window.hacked=1</script>",
    "{assets} ${window.hacked=1} &lt;b&gt;",
    "\u202eevil\u202d \u2066left",
    "javascript:window.hacked=1",
    "  two  spaces\nand a second line  ",
    "́" * 50,
    "=cmd|' /C calc'!A0",
]

# Ids that JavaScript would round. Beyond the largest id, the service would give no other ids.
BIG, BESIDE = -9223372036854775807, -9223372036854775806

THREE = [NewPlant(1, "Abies", "Pine"), NewPlant(2, "Rosa"), NewPlant(3, "Acer")]


def numbered(many: int) -> list[NewPlant]:
    return [NewPlant(id_, f"Plant {id_}", "Abies") for id_ in range(1, many + 1)]


def go(page: Page, link: str, first_id: int) -> None:
    """Follow a link, and wait for the page of plants that begins with `first_id`."""
    page.get_by_role("link", name=link, exact=True).first.click()
    expect(page.locator("#plants .id").first).to_have_text(str(first_id))
    expect(page.get_by_role("heading", name="Plants")).to_be_focused()


def test_plants_are_found_by_page_by_name_by_words_and_by_tag(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*numbered(120), NewPlant(200, "Rosa × damascena", "Rosa & Co"))
    first, count = page.locator("#plants .id").first, page.locator("#count")
    begin = page.get_by_role("searchbox", name="Begin at")
    search = page.get_by_role("searchbox", name="Search")
    tags = page.get_by_role("complementary", name="Tags")
    assert [row[0] for row in rows(page)] == [str(id_) for id_ in range(1, 51)]
    expect(count).to_have_text("121 plants")

    go(page, "Next page", 51)
    go(page, "Next page", 101)
    page.go_back()
    expect(first).to_have_text("51")
    page.reload()
    expect(first).to_have_text("51")
    page.get_by_role("button", name="Name", exact=True).click()
    expect(first).to_have_text("1")
    begin.press_sequentially("ro")
    expect(first).to_have_text("200")
    expect(begin).to_be_focused()
    page.get_by_role("button", name="Previous page").first.click()
    expect(first).to_have_text("71")
    expect(page.locator("#plants .id").last).to_have_text("120")
    page.go_back()
    expect(first).to_have_text("200")
    begin.clear()
    search.press_sequentially("dam ros")
    expect(count).to_have_text("1 plant")
    expect(search).to_be_focused()
    expect(page).to_have_title("dam ros · Plant Store")
    page.reload()
    expect(search).to_have_value("dam ros")
    search.clear()
    tags.get_by_role("link", name="Rosa & Co").click()

    expect(page.locator("#chosen")).to_have_text("Rosa & Co ×")
    assert rows(page) == [["200", "Rosa × damascena", "Rosa & Co"]]
    page.go_back()
    page.go_back()  # All that was typed is one step.
    expect(search).to_have_value("")


def test_plants_of_several_pages_are_selected_tagged_deleted_and_restored(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*numbered(60), NewPlant(200, "Rosa"))
    selected, said = page.locator("#selected span").first, page.locator("#said")
    buttons, dialog = page.locator("#selected").get_by_role("button"), page.get_by_role("dialog")

    page.get_by_role("checkbox", name="Select plant 3", exact=True).click()
    page.get_by_role("checkbox", name="Select plant 7", exact=True).click(modifiers=["Shift"])
    go(page, "Next page", 51)
    expect(selected).to_have_text("5 selected, 5 not shown")
    page.get_by_role("searchbox", name="Search").fill("plant")
    expect(page.locator("#count")).to_have_text("60 plants")

    def select_all() -> None:
        page.get_by_role("checkbox", name="Select all of this page").click()
        page.get_by_role("button", name="Select all 60").click()
        expect(selected).to_have_text("60 selected, 10 not shown")

    select_all()
    buttons.get_by_text("Set tag").click()
    dialog.get_by_role("combobox", name="Tag").fill("Tree")
    dialog.get_by_role("button", name="Set tag").click()
    expect(said).to_have_text("60 plants now have the tag Tree")
    expect(page.locator("#plants .tag").first).to_have_text("Tree")
    select_all()
    buttons.get_by_text("Delete").click()
    dialog.get_by_role("button", name="Delete", exact=True).click()
    expect(said).to_have_text("60 plants deleted")
    assert set(stored_plants(garden.database)) == {200}
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(said).to_have_text("60 plants restored")
    expect(page.locator("#toast[role=status]")).to_be_in_viewport(ratio=1)

    assert len(stored_plants(garden.database)) == 61


def test_a_plant_is_added_changed_deleted_and_restored_without_rounding_its_id(
    open_page: Callable[..., Page], garden: Service
) -> None:
    beside = NewPlant(BESIDE, "Beside", "Rosa")
    page = open_page(beside)
    field = page.get_by_role("dialog").get_by_role("textbox", name="Id")
    error, said = page.locator("#plant-id-error"), page.locator("#said")

    page.get_by_role("button", name="Add a plant").click()
    store(page, id=str(BESIDE), name="beside")
    expect(page.locator("#namesake")).to_have_text(f"Another plant has this name: {BESIDE}")
    expect(error).to_contain_text(f"Id {BESIDE} is Beside: open it")
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    store(page, id=f" {BIG} ", name="Rosa × damascena")
    expect(page.get_by_text(f"Saved: {BIG}")).to_be_visible()
    choose(page, "Edit", BIG)
    store(page, name="\u00a0Bigger\u00a0", tag=" Rosa")
    expect(said).to_have_text(f"Saved: {BIG} Bigger")
    expect(page.locator("#plants").get_by_role("link", name="Bigger")).to_be_focused()
    changed = [NewPlant(BIG, "Bigger", "Rosa"), beside]
    assert list(stored_plants(garden.database).values()) == changed
    choose(page, "Delete", BIG)
    expect(page.get_by_text(f"Deleted: {BIG}")).to_be_visible()
    assert list(stored_plants(garden.database).values()) == [beside]
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.get_by_text(f"Restored: {BIG}")).to_be_visible()

    assert list(stored_plants(garden.database).values()) == changed


def test_typed_text_is_lost_only_after_a_question(
    open_page: Callable[..., Page], context: BrowserContext, garden: Service
) -> None:
    page = open_page(*THREE)
    name = page.get_by_role("textbox", name="Name")
    question = page.get_by_role("dialog", name="Discard what you entered?")
    page.get_by_role("searchbox", name="Search").fill("a")
    expect(page.locator("#count")).to_have_text("2 plants")
    page.get_by_role("link", name="Abies").click()
    name.fill("Abies alba")

    # A browser may close a dialog without asking if only Escape was pressed several times.
    for _ in range(3):
        page.keyboard.press("Escape")
        expect(question.get_by_role("button", name="Keep editing")).to_be_focused()
        page.keyboard.press("Escape")
        expect(question).to_be_hidden()
    page.go_back()
    question.get_by_role("button", name="Keep editing").click()
    with page.expect_event("dialog") as leaving:
        page.evaluate("setTimeout(() => location.reload())")
    assert leaving.value.type == "beforeunload"
    leaving.value.dismiss()
    other = context.new_page()
    other.goto(f"http://127.0.0.1:{garden.port}")
    other.get_by_role("button", name="Sign out").click()
    question.get_by_role("button", name="Keep editing").click()
    expect(name).to_have_value("Abies alba")
    page.go_back()
    question.get_by_role("button", name="Discard").click()

    expect(name).to_be_hidden()
    expect(page.locator("#count")).to_have_text("2 plants")


def test_typed_text_survives_the_revocation_of_the_token_and_other_plants_disappear(
    open_page: Callable[..., Page], garden: Service, token: str
) -> None:
    secret = garden.token(name="short")
    page = open_page(NewPlant(1, "Abies"), secret=secret)
    name = page.get_by_role("textbox", name="Name")
    page.get_by_role("button", name="Add a plant").click()
    name.fill("Rosa canina")
    with opened(garden.database) as opened_store, garden.client(secret) as client:
        opened_store.revoke_token("short", 0)
        wait_until(lambda: client.send("GET", "/token").status == 401)

    # The list may have been read meanwhile, and have led to the question already.
    page.locator("dialog button[value=save]").dispatch_event("click")
    sign_in = page.get_by_role("dialog", name="Sign in")
    expect(sign_in).to_contain_text("The token is revoked")
    sign_in.get_by_label("Access token").fill(token)
    sign_in.get_by_role("button", name="Sign in").click()
    expect(name).to_have_value("Rosa canina")
    expect(page.get_by_role("dialog")).not_to_contain_text("The token is revoked")
    store(page)
    expect(page.locator("#plants .name")).to_have_text(["Abies", "Rosa canina"])
    page.evaluate("token => sessionStorage.setItem('plantstore.token', token)", secret)
    page.reload()  # now without a dialog

    expect(page.locator("#token-error")).to_have_text("The token is revoked")
    assert "Abies" not in page.content()


def test_what_others_change_is_shown_also_after_a_restart_and_never_overwritten_without_a_question(
    context: BrowserContext, watch: Watch, tmp_path: Path
) -> None:
    context.add_init_script(HURRY)
    watch.service_goes_away = True
    page = context.new_page()
    names = page.locator("#plants .name")
    box = page.get_by_role("checkbox", name=f"Select plant {BIG}")
    with Service(tmp_path) as service:
        service.change(NewPlant(BIG, "Abies", "Pine"), *THREE[1:])
        enter(page, service, service.token())
        box.check()
        names.get_by_role("link").nth(2).focus()
        service.change(Replacement(BIG, Plant("Theirs", "Pine")))
        expect(names).to_have_text(["Theirs", "Rosa", "Acer"])
        expect(names.get_by_role("link").nth(2)).to_be_focused()
        choose(page, "Edit", 3)
        page.get_by_role("textbox", name="Name").fill("Mine")

    service.change(Replacement(3, Plant("Meanwhile", None)))
    with Service(tmp_path, "--port", str(service.port)) as again:
        expect(page.locator("#health")).to_be_empty()
        store(page)
        question = page.get_by_role("dialog", name="Somebody else has changed plant 3")
        expect(page.locator("#versions p bdi")).to_have_text(["Meanwhile", "Mine"])
        assert stored_plants(again.database)[3].name == "Meanwhile"
        question.get_by_role("button", name="Save mine").click()

        expect(names).to_have_text(["Theirs", "Rosa", "Mine"])
        expect(box).to_be_checked()
        page.close()


def test_no_text_of_a_plant_or_a_file_is_interpreted_as_markup(
    open_page: Callable[..., Page], watch: Watch
) -> None:
    page = open_page(*(NewPlant(id_, text, text) for id_, text in enumerate(HOSTILE)))

    assert rows(page) == [[str(id_), text, text] for id_, text in enumerate(HOSTILE)]
    expect(page.locator("#plants bdi:not([translate=no])")).to_have_count(0)  # as they are
    choose(page, "Delete", 0)
    page.keyboard.press("Escape")
    lines = "".join(f"{text},A\n" for text in [99, *HOSTILE])
    drop(page, f"id,name\n{lines}".encode(), HOSTILE[0])
    expect(page.get_by_role("dialog", name=f"Import {HOSTILE[0]}")).to_be_visible()
    import_rows(page, f"1 new, {len(HOSTILE) + 1} refused")  # one has two lines
    expect(page.locator("#preview-title")).to_have_text(f"Import {HOSTILE[0]}")
    expect(page.get_by_text("Imported: 1 new")).to_be_visible()
    page.get_by_role("button", name="Close", exact=True).click()
    assert len(rows(page)) == len(HOSTILE) + 1  # The list is loaded again.
    page.get_by_role("searchbox", name="Search").fill(HOSTILE[0])
    expect(page).to_have_title(f"{HOSTILE[0]} · Plant Store")
    assert page.locator("main :is(img, script, b)").count() == 0
    assert page.evaluate("window.hacked") is None
    assert not watch.problems

    # The policy of the page forbids markup from text, also where the page would make a mistake.
    refusal = page.evaluate(
        "() => { try { document.body.innerHTML = '<b></b>' } catch (error) { return error.name } }"
    )
    assert refusal == "TypeError"
    assert "requires 'TrustedHTML'" in watch.problems.pop()


def test_on_a_phone_and_at_any_zoom_nothing_is_cut_off_and_nothing_moves_while_it_loads(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*numbered(60), NewPlant(-(2**63), "Unbroken" * 100, "Tag" * 100))
    fits = "document.documentElement.scrollWidth <= innerWidth"
    for direction, width, height in (("ltr", 390, 844), ("rtl", 390, 844), ("rtl", 640, 400)):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate(f"document.dir = '{direction}'")
        page.get_by_role("button", name="More", exact=True).click()
        expect(page.locator("#more")).to_be_in_viewport(ratio=1)
        assert page.evaluate(fits)
        page.get_by_role("button", name="More", exact=True).click()

    page.set_viewport_size({"width": 320, "height": 640})
    page.reload()
    expect(page.locator("#plants tr")).to_have_count(50)
    assert moved(page) < 0.05
    assert page.evaluate(fits)
    expect(page.locator("#plants .tag").first).to_be_in_viewport(ratio=1)
    box = page.get_by_role("checkbox", name="Select plant 1", exact=True).bounding_box()
    assert box
    assert min(box["width"], box["height"]) >= 24
    page.get_by_role("checkbox", name="Select all of this page").check()
    last = page.get_by_role("link", name="Plant 49", exact=True)
    last.focus()
    bar, focused = page.locator("#selected").bounding_box(), last.bounding_box()
    assert bar
    assert focused
    assert focused["y"] + focused["height"] <= bar["y"] < bar["y"] + bar["height"] <= 640
    page.get_by_role("button", name="Select none").click()
    go(page, "Next page", 50)
    first = page.locator("#plants .name").first.bounding_box()
    assert first
    assert first["y"] < 640 / 2
    assert moved(page) < 0.05
    choose(page, "Edit", 50)
    expect(page.get_by_role("dialog")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Tags", exact=True).click()
    page.get_by_role("complementary").get_by_role("link", name="Abies").click()
    expect(page.get_by_role("complementary")).to_be_hidden()
    drop(page, b"id,name\n" + b"Unbroken" * 40 + b"," + b"n" * 300 + b"\nx\n700," + b"n" * 300)
    dialog = page.get_by_role("dialog")
    expect(page.locator("#preview-said")).to_have_text("1 new, 2 refused")
    assert dialog.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")
    import_rows(page, "1 new, 2 refused")
    expect(page.get_by_text("Imported: 1 new, 2 refused")).to_be_visible()
    assert dialog.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")
    assert page.evaluate(fits)


def test_states_are_visible_in_forced_colours_and_texts_from_right_to_left_in_dialogs(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(NewPlant(7, "ורד הכלב", "ורד"))
    page.emulate_media(forced_colors="active")

    id_, name = (page.locator(f"#plants {part} bdi").bounding_box() for part in (".id", ".name"))
    assert id_
    assert name
    assert 0 < name["x"] - id_["x"] - id_["width"] < 40
    page.get_by_role("checkbox", name="Select plant 7").check()
    expect(page.locator("#plants tr")).to_have_css("outline-style", "solid")
    page.get_by_role("link", name="ורד הכלב").click()

    expect(page.get_by_role("textbox", name="Name")).to_have_css("direction", "rtl")
    expect(page.get_by_role("combobox", name="Tag")).to_have_css("direction", "rtl")


def test_axe_finds_no_violation_in_the_list_and_the_dialogs(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*numbered(10), NewPlant(200, "Plant 1"))

    page.get_by_role("checkbox", name="Select all of this page").click()
    assert_accessible(page)
    for opener in ("Add a plant", "Find duplicates", "Print", "Set tag"):
        button = page.get_by_role("button", name=opener, exact=True)
        if not button.first.is_visible():
            page.get_by_role("button", name="More", exact=True).click()
            assert_accessible(page)
        button.first.click()
        expect(page.get_by_role("dialog")).to_be_visible()
        assert_accessible(page)
        page.keyboard.press("Escape")
        expect(page.get_by_role("dialog")).to_be_hidden()
    drop(page, b"id,name\n1,Another\n300,Rosa\nx,Tilia\n")
    expect(page.locator("#preview-said")).to_have_text("1 new, 1 change, 1 refused")
    assert_accessible(page)
    page.get_by_role("radio", name="Skip").check()
    import_rows(page, "1 new, 1 skipped, 1 refused")
    expect(page.get_by_text("Imported: 1 new")).to_be_visible()
    assert_accessible(page)
    page.keyboard.press("Escape")
    expect(page.locator("#count")).to_have_text("12 plants")
    page.set_viewport_size({"width": 390, "height": 844})
    page.get_by_role("searchbox", name="Search").fill("zzz")
    expect(page.get_by_text("No plants found")).to_be_visible()

    assert_accessible(page)


def test_every_operation_works_with_the_keyboard(
    open_page: Callable[..., Page], context: BrowserContext, garden: Service, token: str
) -> None:
    open_page().close()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{garden.port}")
    dialog, said = page.get_by_role("dialog"), page.locator("#said")
    search = page.get_by_role("searchbox", name="Search")
    names = page.locator("#plants .name")
    link = names.get_by_role("link")

    def press(*keys: str) -> None:
        for key in keys:
            page.keyboard.press(key)

    expect(page.get_by_label("Access token")).to_be_focused()
    page.keyboard.type(token)
    press("Enter")
    expect(page.get_by_text("no plants yet")).to_be_visible()
    search.focus()
    press("Tab", "Enter")
    page.keyboard.type("Abies balsamea")
    press("Tab", "Tab", "Tab", "Tab", "Tab", "Enter")  # Save and add another
    for name in ("Acer", "Rosa"):  # typed while the plant before is saved
        page.keyboard.type(name)
        press("Enter")
    press("Escape")
    expect(dialog).to_be_hidden()
    expect(names).to_have_text(["Abies balsamea", "Acer", "Rosa"])
    search.press_sequentially("ros")
    field = page.get_by_role("textbox", name="Name")
    rosa = names.get_by_role("link", name="Rosa")
    for key, focused in (("ArrowDown", rosa), ("Enter", field), ("Escape", link)):
        press(key)
        expect(focused).to_be_focused()
    press("/", "Delete", "ArrowDown")
    expect(link.first).to_be_focused()
    press("ArrowDown")
    expect(link.nth(1)).to_be_focused()
    press("Enter")
    expect(field).to_be_focused()
    page.keyboard.type("Acer rubrum")
    press("Enter")
    expect(said).to_contain_text("Acer rubrum")
    expect(link.nth(1)).to_be_focused()
    press("Control+z")
    expect(said).to_contain_text("Undone:")
    press("Shift+ArrowDown")
    expect(page.locator("#selected")).to_contain_text("2 selected")
    press("Tab", "Tab", "Tab", "Tab")  # from the list to the bar of the selection
    expect(page.locator("#selected").get_by_role("button", name="Delete")).to_be_focused()
    press("Enter")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    press("Tab", "Enter")
    expect(names).to_have_text(["Abies balsamea"])
    expect(link).to_be_focused()
    press("Control+z", "Tab", "Enter")

    expect(names).to_have_text(["Abies balsamea", "Acer", "Rosa"])


def test_a_token_is_kept_until_its_tab_closes_and_signing_out_removes_all_from_all_tabs(
    context: BrowserContext, garden: Service, token: str, open_page: Callable[..., Page]
) -> None:
    open_page(NewPlant(7, "Abies", "Secret")).close()
    home = f"http://127.0.0.1:{garden.port}/"
    page = context.new_page()
    field = page.get_by_label("Access token")
    dialog = page.get_by_role("dialog", name="Edit plant 7")
    page.goto(f"{home}#/plants/7")
    expect(page).to_have_title("Sign in · Plant Store")
    field.fill("Zwölf Boxkämpfer €")
    page.keyboard.press("Enter")
    expect(page.locator("#token-error")).to_contain_text("copy all of it, from plst_")
    expect(field).to_be_focused()
    assert_accessible(page)

    field.fill(f'"Bearer {token}"')
    page.keyboard.press("Enter")
    expect(dialog.get_by_role("textbox", name="Name")).to_have_value("Abies")
    page.reload()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.url == home
    page.get_by_role("complementary").get_by_role("link", name="Secret").click()
    expect(page.locator("#chosen")).to_be_visible()
    other = context.new_page()
    other.goto(home)  # gets the token of the open tab
    expect(other.locator("#count")).to_be_visible()
    assert other.evaluate("[localStorage.length, document.cookie]") == [0, ""]
    other.get_by_role("button", name="Sign out").click()

    for each in (page, other):
        expect(each.get_by_label("Access token")).to_be_visible()
        assert not re.search("Abies|Secret", each.content())
    page.go_back()
    expect(field).to_be_visible()
    assert "Abies" not in page.content()
    assert page.evaluate("sessionStorage.length") == 0


def test_anyone_reads_public_plants_and_a_token_is_needed_only_to_change_them(
    context: BrowserContext, tmp_path: Path, watch: Watch
) -> None:
    with Service(tmp_path, "--public-read") as public:
        public.change(NewPlant(7, "Rosa canina", "Rosa"), NewPlant(8, "Acer"))
        page = context.new_page()
        sign_in = page.get_by_role("button", name="Sign in")
        page.goto(f"http://127.0.0.1:{public.port}#/plants/7")
        dialog = page.get_by_role("dialog", name="Plant 7")
        expect(dialog.get_by_role("textbox", name="Name")).not_to_be_editable()
        dialog.get_by_role("button", name="Close").click()
        assert rows(page) == [["7", "Rosa canina", "Rosa"], ["8", "Acer", ""]]
        assert b"Rosa canina" in export(page, "CSV")[1]
        needing = re.compile(r"/(ids|changes|token)\b(?!\.)")
        assert not [*filter(needing.search, watch.requests)]

        sign_in.click()
        page.get_by_label("Access token").fill(public.token())
        sign_in.click()
        expect(page.locator("#add")).to_be_visible()
        page.get_by_role("button", name="Sign out").click()

        expect(sign_in).to_be_visible()
        expect(page.locator("#count")).to_have_text("2 plants")
        expect(page.locator("#add")).to_be_hidden()


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
