"""The page, in a real browser: listing, creating, changing and deleting plants."""

from collections.abc import Callable

import pytest
from playwright.sync_api import BrowserContext, Locator, Page, expect

from plantstore.changes import Deletion
from plantstore.plants import NewPlant
from support.browser import Watch, choose, enter, rows, store
from support.service import Service, stored_plants

BIG, BESIDE = 9223372036854775807, 9223372036854775806

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


def numbered(many: int, tag: str | None = None) -> list[NewPlant]:
    return [NewPlant(id_, f"Plant {id_}", tag) for id_ in range(1, many + 1)]


def shown_ids(page: Page) -> list[int]:
    return [int(row[0]) for row in rows(page)]


def row_of(page: Page, id_: int) -> Locator:
    return page.get_by_role("row").filter(has=page.get_by_role("cell", name=str(id_), exact=True))


def go(page: Page, link: str, first_id: int) -> None:
    """Follow a link, and wait for the page of plants that begins with `first_id`."""
    page.get_by_role("link", name=link).first.click()
    expect(page.locator("#plants .id").first).to_have_text(str(first_id))
    expect(page.get_by_role("heading", name="Plants")).to_be_focused()


@pytest.fixture
def with_plants(context: BrowserContext, service: Service) -> Callable[..., Page]:
    """Return a function that stores plants and opens the page."""

    def open_with(*plants: NewPlant) -> Page:
        service.change(*plants)
        page = context.new_page()
        enter(page, service, service.token())
        return page

    return open_with


def test_plants_are_listed_page_by_page_forwards_and_backwards(
    with_plants: Callable[..., Page],
) -> None:
    page = with_plants(*numbered(120))
    assert shown_ids(page) == list(range(1, 51))

    go(page, "Next", 51)
    go(page, "Next", 101)
    assert shown_ids(page) == list(range(101, 121))
    expect(page.get_by_role("link", name="Next").first).to_be_hidden()
    go(page, "Previous", 51)
    go(page, "Next", 101)
    page.go_back()
    expect(page.locator("#plants .id").first).to_have_text("51")
    page.reload()
    expect(page.locator("#plants .id").first).to_have_text("51")
    go(page, "Previous", 1)
    expect(page.get_by_role("link", name="Previous").first).to_be_hidden()
    go(page, "Next", 51)
    go(page, "First page", 1)


def test_the_url_of_a_listing_restores_its_tag_and_position(
    with_plants: Callable[..., Page],
) -> None:
    page = with_plants(*numbered(60), NewPlant(100, "Rosa × damascena", "Rosa & Co"))

    page.goto(f"{page.url}?tag=Rosa+%26+Co&after=50")

    expect(page.get_by_role("searchbox")).to_have_value("tag:Rosa & Co")
    assert rows(page) == [["100", "Rosa × damascena", "Rosa & Co"]]


def test_plants_are_filtered_by_a_typed_or_clicked_tag(
    with_plants: Callable[..., Page],
) -> None:
    page = with_plants(
        NewPlant(1, "Abies balsamea", "Abies"),
        NewPlant(2, "Rosa × damascena"),
        NewPlant(3, "Abies alba", "Abies"),
        NewPlant(4, "Nameless", ""),
    )

    page.get_by_role("searchbox").fill("tag: Abies")
    expect(page.locator("#plants tr")).to_have_count(2)
    assert shown_ids(page) == [1, 3]
    page.get_by_role("searchbox").clear()
    expect(page.locator("#plants tr")).to_have_count(4)
    page.get_by_role("link", name="(empty)").click()
    expect(page.locator("#plants tr")).to_have_count(1)
    assert shown_ids(page) == [4]
    page.get_by_role("searchbox").fill("tag:Nobody's")
    expect(page.get_by_text("No plants found")).to_be_visible()
    page.get_by_role("link", name="Show all").click()
    expect(page.locator("#plants tr")).to_have_count(4)


def test_a_plant_with_the_largest_id_is_added_without_rounding(
    page: Page, service: Service
) -> None:
    page.get_by_role("button", name="Add a plant").click()
    store(page, id=str(BIG), name="Rosa × damascena", tag="Rosa")

    expect(page.get_by_text(f"Stored: {BIG}")).to_be_visible()
    assert rows(page) == [[str(BIG), "Rosa × damascena", "Rosa"]]
    assert stored_plants(service.database) == {BIG: NewPlant(BIG, "Rosa × damascena", "Rosa")}


@pytest.mark.parametrize(
    ("id_", "message"),
    [
        ("1", "`id` is taken: another plant is stored under the id 1"),
        (str(BIG + 1), f"to {BIG}, got {BIG + 1}"),
        ("seven", 'got "seven"'),
        ("", 'got ""'),
        ("1.5", "got 1.5"),
    ],
)
def test_an_invalid_id_shows_the_error_message_of_the_service_at_its_field(
    with_plants: Callable[..., Page], id_: str, message: str
) -> None:
    page = with_plants(NewPlant(1, "Abies balsamea"))
    field = page.get_by_role("textbox", name="Id")

    page.get_by_role("button", name="Add a plant").click()
    expect(field).not_to_have_value("")  # the free id
    store(page, id=id_, name="Another")

    expect(page.locator("#plant-id-error")).to_contain_text(message)
    expect(field).to_be_focused()
    expect(field).to_have_attribute("aria-invalid", "true")
    store(page, id="2")
    expect(page.get_by_text("Stored: 2")).to_be_visible()


def test_a_plant_is_changed_and_its_neighbour_is_not(
    with_plants: Callable[..., Page], service: Service
) -> None:
    page = with_plants(NewPlant(BESIDE, "Beside", "Rosa"), NewPlant(BIG, "Big", "Rosa"))

    choose(page, "Change", BIG)
    expect(page.get_by_role("textbox", name="Id")).to_have_value(str(BIG))
    store(page, name="Bigger", tag="")

    expect(page.get_by_text(f"Changed: {BIG}")).to_be_visible()
    assert stored_plants(service.database) == {
        BESIDE: NewPlant(BESIDE, "Beside", "Rosa"),
        BIG: NewPlant(BIG, "Bigger"),
    }


def test_a_change_keeps_unedited_values_that_an_input_field_cannot_represent(
    with_plants: Callable[..., Page], service: Service
) -> None:
    page = with_plants(NewPlant(1, "two\nlines", "Abies"), NewPlant(2, "Nameless", ""))

    choose(page, "Change", 1)
    store(page, tag="Picea")
    expect(page.get_by_text("Changed: 1")).to_be_visible()
    choose(page, "Change", 2)
    store(page, name="Named")
    expect(page.get_by_text("Changed: 2")).to_be_visible()

    assert stored_plants(service.database) == {
        1: NewPlant(1, "two\nlines", "Picea"),
        2: NewPlant(2, "Named", ""),
    }


def test_changing_a_deleted_plant_says_so_and_removes_its_row(
    with_plants: Callable[..., Page], service: Service
) -> None:
    page = with_plants(NewPlant(1, "Abies balsamea"))
    expect(row_of(page, 1)).to_be_visible()
    service.change(Deletion(1))

    choose(page, "Change", 1)

    expect(page.locator("#said")).to_have_text("No plant is stored under the id 1")
    expect(row_of(page, 1)).to_be_hidden()


def test_a_plant_is_deleted_after_confirmation_and_its_neighbour_is_not(
    with_plants: Callable[..., Page], service: Service
) -> None:
    page = with_plants(NewPlant(BESIDE, "Beside"), NewPlant(BIG, "Big"))
    question = page.get_by_role("dialog", name="Delete this plant?")

    choose(page, "Delete", BIG)
    expect(question).to_contain_text(f"{BIG}: Big")
    expect(question.get_by_role("button", name="Cancel")).to_be_focused()
    question.get_by_role("button", name="Cancel").click()
    expect(question).to_be_hidden()
    assert len(stored_plants(service.database)) == 2
    choose(page, "Delete", BIG)
    question.get_by_role("button", name="Delete", exact=True).click()

    expect(page.get_by_text(f"Deleted: {BIG}")).to_be_visible()
    expect(row_of(page, BIG)).to_be_hidden()
    assert stored_plants(service.database) == {BESIDE: NewPlant(BESIDE, "Beside")}


def test_names_with_markup_are_shown_as_text(with_plants: Callable[..., Page]) -> None:
    page = with_plants(*(NewPlant(id_, text, text) for id_, text in enumerate(HOSTILE)))

    assert rows(page) == [[str(id_), text, text] for id_, text in enumerate(HOSTILE)]

    for id_ in range(len(HOSTILE)):
        choose(page, "Delete", id_)
        page.keyboard.press("Escape")
    assert page.locator("#plants :is(img, script, b)").count() == 0
    assert page.evaluate("window.hacked") is None


def test_trusted_types_make_the_browser_refuse_markup_from_text(page: Page, watch: Watch) -> None:
    refusal = page.evaluate(
        "() => { try { document.body.innerHTML = '<b></b>' } catch (error) { return error.name } }"
    )

    assert refusal == "TypeError"
    assert "requires 'TrustedHTML'" in watch.problems.pop()
