"""The page, in a real browser: plants are listed, searched, and shown as what they are."""

import re
from collections.abc import Callable

from playwright.sync_api import BrowserContext, Page, expect

from plantstore.plants import NewPlant
from support.browser import (
    Watch,
    assert_accessible,
    choose,
    drop,
    import_rows,
    moved,
    rows,
)
from support.service import Service, stored_plants

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

PLANTS = [
    NewPlant(1, "Quercus alba L.", "Quercus"),
    NewPlant(2, "Rosa × alba", "Rosa"),
    NewPlant(3, "Rosa canina", "Rosa"),
    NewPlant(4, "Ålesund", "Rosa"),
    NewPlant(5, "Nameless", ""),
]


def numbered(many: int) -> list[NewPlant]:
    return [NewPlant(id_, f"Plant {id_}", "Abies") for id_ in range(1, many + 1)]


def shown_ids(page: Page) -> list[int]:
    return [int(row[0]) for row in rows(page)]


def go(page: Page, link: str, first_id: int) -> None:
    """Follow a link, and wait for the page of plants that begins with `first_id`."""
    page.get_by_role("link", name=link, exact=True).first.click()
    expect(page.locator("#plants .id").first).to_have_text(str(first_id))
    expect(page.get_by_role("heading", name="Plants")).to_be_focused()


def test_plants_are_listed_page_by_page_and_an_address_restores_its_page(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*numbered(120), NewPlant(200, "Rosa × damascena", "Rosa & Co"))
    first = page.locator("#plants .id").first
    above = page.get_by_role("navigation", name="Pages, above").get_by_role("link")
    assert shown_ids(page) == list(range(1, 51))
    shown = page.locator("#range")
    expect(page.locator("#count")).to_have_text("121 plants")
    expect(shown).to_have_text("1\u201350 of")

    go(page, "Next page", 51)
    expect(shown).to_have_text("51\u2013100 of")
    go(page, "Next page", 101)
    assert shown_ids(page) == [*range(101, 121), 200]
    expect(above).to_have_text(["First", "\u2039"])
    assert_accessible(page)
    go(page, "Previous page", 51)
    expect(shown).to_have_text("51\u2013100 of")
    expect(above).to_have_text(["First", "\u2039", "\u203a"])
    page.go_back()
    expect(first).to_have_text("101")
    page.reload()
    expect(first).to_have_text("101")
    go(page, "First page", 1)
    expect(above).to_have_text(["\u203a"])
    page.get_by_role("navigation", name="Pages, below").get_by_role("link", name="Next").click()
    expect(first).to_have_text("51")
    page.get_by_role("button", name="Id").click()
    expect(first).to_have_text("200")
    expect(page.get_by_role("columnheader", name="Id")).to_have_attribute("aria-sort", "descending")
    page.goto("/".join(page.url.split("/")[:3]) + "?tag=Rosa+%26+Co&after=50")

    expect(page.locator("#chosen")).to_have_text("Rosa & Co ×")
    assert rows(page) == [["200", "Rosa × damascena", "Rosa & Co"]]


def test_plants_are_in_order_by_name_and_the_list_begins_at_what_is_typed(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*numbered(120), NewPlant(200, "Abies"), NewPlant(201, "バラ", "Abies"))
    ids = page.locator("#plants .id")
    above = page.get_by_role("navigation", name="Pages, above")
    back = above.get_by_role("button", name="Previous page")
    head = page.get_by_role("columnheader", name="Name")
    begin = page.get_by_role("searchbox", name="Begin at")
    expect(begin).to_be_hidden()

    page.get_by_role("button", name="Name", exact=True).click()
    expect(ids.first).to_have_text("200")
    expect(head.get_by_role("button")).to_be_focused()
    expect(head).to_have_attribute("aria-sort", "ascending")
    expect(back).to_be_hidden()
    begin.press_sequentially("pla")
    expect(ids.first).to_have_text("1")
    assert_accessible(page)
    expect(begin).to_be_focused()
    expect(page.locator("#range")).to_be_hidden()
    go(page, "Next page", 51)
    page.get_by_role("link", name="Plant 52", exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_url(lambda url: "#" not in url)
    page.reload()
    expect(ids.first).to_have_text("51")
    back.click()
    expect(ids.first).to_have_text("1")
    expect(begin).to_have_value("pla")
    back.click()
    expect(ids.first).to_have_text("200")
    expect(begin).to_have_value("")
    begin.fill("バ")
    expect(ids.first).to_have_text("201")
    begin.fill("一")
    expect(page.get_by_text("No names from 一 on")).to_be_visible()
    assert_accessible(page)


def test_plants_are_found_while_typing_among_all_or_those_of_a_tag(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*PLANTS)
    box = page.get_by_role("searchbox", name="Search")
    count, names = page.locator("#count"), page.locator("#plants .name")
    expect(count).to_have_text("5 plants")

    box.press_sequentially("alb que")
    expect(count).to_have_text("1 plant")
    assert rows(page) == [["1", "Quercus alba L.", "Quercus"]]
    expect(box).to_be_focused()
    expect(page).to_have_title("alb que · Plant Store")
    box.fill("zzz")
    expect(page.get_by_text("No plants found")).to_be_visible()
    expect(count).to_have_text("0 plants")
    page.reload()
    expect(box).to_have_value("zzz")
    page.get_by_role("link", name="Show all").click()
    expect(count).to_have_text("5 plants")
    page.go_back()
    page.go_back()  # All that was typed is one step.
    expect(box).to_have_value("")

    page.locator("#plants").get_by_role("link", name="Rosa", exact=True).first.click()
    expect(count).to_have_text("3 plants")
    box.fill("al")
    expect(names).to_have_text(["Rosa × alba", "Ålesund"])
    page.locator("#chosen").click()
    expect(names).to_have_text(["Quercus alba L.", "Rosa × alba", "Ålesund"])
    box.clear()
    page.locator("#plants").get_by_role("link", name="(empty)").click()
    expect(page.locator("#plants .id")).to_have_text(["5"])


def test_plants_of_several_pages_are_selected_tagged_deleted_and_restored(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*numbered(60), NewPlant(200, "Rosa"))
    selected = page.locator("#selected span").first

    page.get_by_role("checkbox", name="Select plant 3", exact=True).click()
    page.get_by_role("checkbox", name="Select plant 7", exact=True).click(modifiers=["Shift"])
    expect(selected).to_have_text("5 selected")
    go(page, "Next page", 51)
    page.get_by_role("checkbox", name="Select plant 51", exact=True).click()
    expect(selected).to_have_text("6 selected, 5 not shown")
    go(page, "Previous page", 1)
    assert page.locator("#plants tr:has(:checked)").count() == 5
    page.get_by_role("searchbox", name="Search").fill("plant")
    expect(page.locator("#count")).to_have_text("60 plants")
    expect(selected).to_have_text("6 selected, 1 not shown")
    page.get_by_role("checkbox", name="Select all of this page").click()
    page.get_by_role("button", name="Select all 60").click()
    expect(selected).to_have_text("60 selected, 10 not shown")
    assert_accessible(page)
    page.locator("#selected").get_by_role("button", name="Set tag").click()
    page.get_by_role("dialog").get_by_role("combobox", name="Tag").fill("Tree")
    page.get_by_role("dialog").get_by_role("button", name="Set tag").click()
    expect(page.locator("#said")).to_have_text("60 plants now have the tag Tree")
    expect(page.locator("#plants .tag").first).to_have_text("Tree")
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator("#said")).to_have_text("60 plants changed back")
    expect(page.locator("#toast[role=status]")).to_be_in_viewport(ratio=1)
    assert_accessible(page)
    page.get_by_role("checkbox", name="Select all of this page").click()
    page.get_by_role("button", name="Select all 60").click()
    expect(selected).to_have_text("60 selected, 10 not shown")
    page.locator("#selected").get_by_role("button", name="Delete").click()
    page.get_by_role("dialog").get_by_role("button", name="Delete", exact=True).click()
    expect(page.locator("#said")).to_have_text("60 plants deleted")
    assert set(stored_plants(garden.database)) == {200}
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator("#said")).to_have_text("60 plants restored")

    assert len(stored_plants(garden.database)) == 61


def test_tags_are_listed_with_their_numbers_beside_the_plants_or_below_a_button(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*PLANTS, NewPlant(6, "Acer"), NewPlant(7, "Abies"))
    listed = page.get_by_role("complementary", name="Tags")
    links, count = listed.get_by_role("link"), page.locator("#count")
    expect(links).to_have_text(["All 7", "Untagged 2", "(empty) 1", "Quercus 1", "Rosa 3"])
    expect(page.get_by_role("button", name="All tags")).to_be_hidden()
    assert_accessible(page)

    listed.get_by_role("link", name="Untagged").click()
    expect(count).to_have_text("2 plants")
    expect(page.locator("#chosen")).to_have_text("Untagged ×")
    page.get_by_role("searchbox", name="Search").fill("ac")
    expect(count).to_have_text("1 plant")
    expect(links.nth(1)).to_have_attribute("aria-current", "true")
    page.get_by_role("button", name="Name", exact=True).click()
    listed.get_by_role("searchbox", name="Filter").fill("qu")
    expect(links).to_have_text(["All 7", "Untagged 2", "Quercus 1"])
    page.set_viewport_size({"width": 390, "height": 844})
    expect(listed).to_be_hidden()
    page.get_by_role("button", name="Untagged").click()
    assert_accessible(page)
    listed.get_by_role("searchbox", name="Filter").fill("")
    listed.get_by_role("link", name="Rosa").click()

    expect(listed).to_be_hidden()
    expect(page.locator("#plants .name")).to_have_text(["Ålesund", "Rosa × alba", "Rosa canina"])
    page.get_by_role("button", name="Rosa", exact=True).click()
    expect(listed.get_by_role("link", name="Rosa")).to_have_attribute("aria-current", "true")


def test_a_tag_is_renamed_at_all_its_plants_and_tags_of_any_page_are_suggested(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(*numbered(1_057), NewPlant(2_000, "Rosa", "Quercus"))
    dialog = page.get_by_role("dialog")
    field = dialog.get_by_role("combobox", name="Tag")
    page.get_by_role("complementary").get_by_role("link", name="Abies").click()

    page.get_by_role("button", name="Rename tag").click()
    expect(dialog.get_by_role("heading")).to_have_text("Rename the tag of 1,057 plants")
    expect(field).to_have_value("Abies")
    field.fill("qu")
    expect(page.locator("#tags option")).to_have_attribute("value", "Quercus")
    assert_accessible(page)
    field.fill("Fir")
    dialog.get_by_role("button", name="Rename").click()

    expect(page.locator("#said")).to_have_text("1,057 plants now have the tag Fir")
    expect(page.locator("#chosen")).to_have_text("Fir ×")
    expect(page.locator("#count")).to_have_text("1,057 plants")
    assert len(rows(page)) == 50
    page.get_by_role("button", name="Undo", exact=True).click()
    expect(page.locator("#said")).to_have_text("1,057 plants changed back")
    assert {plant.tag for plant in stored_plants(garden.database).values()} == {"Abies", "Quercus"}


def test_a_link_to_one_plant_opens_it_after_signing_in(
    context: BrowserContext, open_page: Callable[..., Page], garden: Service, token: str
) -> None:
    open_page(NewPlant(7, "Rosa canina", "Rosa")).close()
    home = f"http://127.0.0.1:{garden.port}/"
    page = context.new_page()
    page.goto(f"{home}#/plants/7")
    expect(page).to_have_title("Sign in · Plant Store")

    page.get_by_label("Access token").fill(token)
    page.keyboard.press("Enter")

    dialog = page.get_by_role("dialog", name="Edit plant 7")
    expect(dialog.get_by_role("textbox", name="Name")).to_have_value("Rosa canina")
    page.reload()
    expect(dialog).to_be_visible()
    page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    assert page.url == home
    page.get_by_role("link", name="Rosa canina").click()
    expect(dialog).to_be_visible()
    assert page.url == f"{home}#/plants/7"
    page.keyboard.press("Escape")
    page.goto(f"{home}#/plants/8")
    expect(page.locator("#said")).to_have_text("No plant is stored under the id 8")


def test_no_text_of_a_plant_or_a_file_is_interpreted_as_markup(
    open_page: Callable[..., Page], watch: Watch
) -> None:
    page = open_page(*(NewPlant(id_, text, text) for id_, text in enumerate(HOSTILE)))

    assert rows(page) == [[str(id_), text, text] for id_, text in enumerate(HOSTILE)]
    expect(page.locator("#plants bdi:not([translate=no])")).to_have_count(0)  # as they are
    for id_ in range(len(HOSTILE)):
        choose(page, "Delete", id_)
        page.keyboard.press("Escape")
    lines = "".join(f"{text},A\n" for text in [99, *HOSTILE])
    drop(page, f"id,name\n{lines}".encode(), HOSTILE[0])
    expect(page.get_by_role("dialog", name=f"Import {HOSTILE[0]}")).to_be_visible()
    import_rows(page, f"1 new, {len(HOSTILE) + 1} refused")  # one has two lines
    expect(page.get_by_text("Import finished")).to_be_visible()
    expect(page.locator("#import-file")).to_have_text(HOSTILE[0])
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


def test_the_first_plant_is_in_the_first_third_of_a_phone_and_the_page_fits_at_any_zoom(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(*numbered(60))
    page.get_by_role("checkbox", name="Select all of this page").click()
    files = page.get_by_role("button", name="More", exact=True)
    expect(files).to_be_hidden()
    for right_to_left, width, height in ((False, 390, 844), (True, 390, 844), (True, 640, 400)):
        page.set_viewport_size({"width": width, "height": height})
        page.evaluate(f"document.dir = '{'rtl' if right_to_left else 'ltr'}'")
        if height > width:
            name = page.locator("#plants .name").first.bounding_box()
            assert name
            assert name["y"] + name["height"] <= height / 3
        for shown in (True, False):
            files.click()
            expect(page.locator("#print")).to_be_visible(visible=shown)
            if shown:
                assert_accessible(page)
            assert page.evaluate("document.documentElement.scrollWidth") <= width


def test_on_a_phone_nothing_is_wider_than_the_screen_and_nothing_moves_while_it_loads(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(NewPlant(-(2**63), "Unbroken" * 100, "Tag" * 100), *numbered(60))
    page.set_viewport_size({"width": 1280, "height": 800})
    expect(page.locator("#plants tr")).to_have_count(50)
    inside = "row => row.getBoundingClientRect().bottom <= innerHeight"
    seen = page.evaluate(f"[...document.querySelectorAll('#plants tr')].filter({inside}).length")
    assert seen >= 18
    page.set_viewport_size({"width": 320, "height": 640})

    page.reload()
    expect(page.locator("#plants tr")).to_have_count(50)
    assert moved(page) < 0.05
    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    expect(page.locator("#plants .tag").first).to_be_in_viewport(ratio=1)
    box = page.get_by_role("checkbox", name="Select plant 1", exact=True).bounding_box()
    assert box
    assert min(box["width"], box["height"]) >= 24
    expect(page.get_by_role("button", name="Name", exact=True)).to_be_in_viewport(ratio=1)
    page.get_by_role("checkbox", name="Select all of this page").check()
    last = page.get_by_role("link", name="Plant 49", exact=True)
    last.focus()
    bar, focused = page.locator("#selected").bounding_box(), last.bounding_box()
    assert bar
    assert focused
    assert moved(page) < 0.05
    assert focused["y"] + focused["height"] <= bar["y"] < bar["y"] + bar["height"] <= 640
    page.get_by_role("button", name="Select none").click()
    go(page, "Next page", 50)
    assert moved(page) < 0.05
    choose(page, "Edit", 50)
    expect(page.get_by_role("dialog")).to_be_in_viewport(ratio=1)
    page.keyboard.press("Escape")
    drop(page, b"id,name\n" + b"Unbroken" * 40 + b"," + b"n" * 300 + b"\nx\n700," + b"n" * 300)
    expect(page.locator("#preview-said")).to_have_text("1 new, 2 refused")
    dialog = page.get_by_role("dialog")
    assert dialog.evaluate("dialog => dialog.scrollWidth <= dialog.clientWidth")
    import_rows(page, "1 new, 2 refused")
    expect(page.get_by_text("2 refused")).to_be_visible()

    assert page.evaluate("document.documentElement.scrollWidth") <= 320
    region = page.get_by_role("region", name="Refused rows")
    assert region.evaluate("region => region.scrollWidth <= region.clientWidth")


def test_states_are_visible_in_forced_colours_and_texts_from_right_to_left_in_dialogs(
    open_page: Callable[..., Page],
) -> None:
    page = open_page(NewPlant(7, "ורד הכלב", "ורד"))
    page.emulate_media(forced_colors="active")

    page.get_by_role("checkbox", name="Select plant 7").check()
    expect(page.locator("#plants tr")).to_have_css("outline-style", "solid")
    page.get_by_role("link", name="ורד הכלב").click()

    expect(page.get_by_role("textbox", name="Name")).to_have_css("direction", "rtl")
    expect(page.get_by_role("combobox", name="Tag")).to_have_css("direction", "rtl")


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
    for name in ("Acer", "Rosa", ""):
        expect(page.get_by_role("textbox", name="Name")).to_have_value("")
        page.keyboard.type(name)
        press("Enter" if name else "Escape")
    expect(dialog).to_be_hidden()
    expect(names).to_have_text(["Abies balsamea", "Acer", "Rosa"])

    search.focus()
    press("ArrowDown", "ArrowDown")
    expect(link.nth(1)).to_be_focused()
    press("Enter")
    expect(page.get_by_role("textbox", name="Name")).to_be_focused()
    page.keyboard.type("Acer rubrum")
    press("Escape")
    expect(dialog.get_by_role("button", name="Keep editing")).to_be_focused()
    press("Enter", "Enter")
    expect(said).to_contain_text("Acer rubrum")
    expect(link.nth(1)).to_be_focused()
    press("Control+z")
    expect(names).to_have_text(["Abies balsamea", "Acer", "Rosa"])
    press("Space", "ArrowDown", "Shift+Space")
    expect(page.locator("#selected")).to_contain_text("2 selected")
    press("/")
    expect(search).to_be_focused()
    press("ArrowDown", "n")
    expect(page.get_by_role("dialog", name="Add a plant")).to_be_visible()
    press("Escape")
    expect(link.first).to_be_focused()
    page.locator("#selected").get_by_role("button", name="Delete").focus()
    press("Enter")
    expect(dialog.get_by_role("button", name="Cancel")).to_be_focused()
    press("Tab", "Enter")
    expect(names).to_have_text(["Abies balsamea"])
    press("Control+z", "Tab", "Enter")
    expect(names).to_have_text(["Abies balsamea", "Acer", "Rosa"])


def test_a_tag_too_long_for_a_url_is_not_a_link(open_page: Callable[..., Page]) -> None:
    page = open_page(NewPlant(1, "Abies", "A" * 1001), NewPlant(2, "Rosa", "R" * 1000))

    expect(page.locator("#plants tr")).to_have_count(2)
    expect(page.locator("#plants .tag a[href]")).to_have_text("R" * 1000)
    expect(page.locator("#tag-list a")).to_have_count(4)
    expect(page.locator("#tag-list a[href]")).to_have_count(3)


def test_all_plants_of_the_search_are_printed_as_a_list_or_as_labels_on_sheets(
    context: BrowserContext, open_page: Callable[..., Page]
) -> None:
    context.add_init_script("window.print = () => {}")
    page = open_page(*numbered(130))

    def print_pages(kind: str) -> int:
        page.get_by_role("button", name="Print", exact=True).click()
        assert_accessible(page)
        page.get_by_role("radio", name=kind).check()
        page.get_by_role("dialog").get_by_role("button", name="Print", exact=True).click()
        expect(page.get_by_role("dialog")).to_be_hidden()
        page.emulate_media(media="print")
        expect(page.get_by_role("button")).to_have_count(0)
        expect(page.locator("#sheet").get_by_text("Plant 130", exact=True)).to_be_visible()
        sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))
        page.emulate_media(media="null")
        return len(sheets)

    assert print_pages("Labels 3 × 8") == 6
    assert print_pages("Labels 5 × 13") == 2
    assert print_pages("Labels 3 × 10 on Letter") == 5
    assert print_pages("Labels, one per page") == 130
    assert print_pages("List") == 4
