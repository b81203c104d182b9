"""The page, in a real browser: files are imported and exported."""

import re
import signal
from collections.abc import Callable
from io import BytesIO
from xml.sax.saxutils import escape
from zipfile import ZIP_DEFLATED, ZipFile

import pytest
from playwright.sync_api import FilePayload, Page, expect

from plantstore.plants import NewPlant
from support.browser import (
    Watch,
    assert_accessible,
    choose,
    drop,
    export,
    import_rows,
    listed_errors,
    save,
    store,
)
from support.command import run
from support.postgres import wait_until
from support.service import Client, Service, stored_plants

ROWS = 5_000
CONTENT = ("id,name\n" + "".join(f"{id_},Plant {id_:05}\n" for id_ in range(ROWS))).encode()

SAFE = "Importing the same file again is safe."

OFFICE = "http://schemas.openxmlformats.org"
PACKAGE = f"{OFFICE}/package/2006"
RELATIONS = f"{OFFICE}/officeDocument/2006/relationships"


def make_workbook(rows: str, texts: str = "") -> bytes:
    """Return an .xlsx with the parts that spreadsheets write, as far as they matter.

    Args:
        rows: the XML of the rows of its sheet.
        texts: the XML of the texts that cells refer to.

    """
    kinds = {"workbook": "sheet.main", "sheet": "worksheet", "sharedStrings": "sharedStrings"}
    main = f'xmlns="{OFFICE}/spreadsheetml/2006/main" xmlns:r="{RELATIONS}"'
    types = "".join(
        f'<Override PartName="/xl/{part}.xml" ContentType='
        f'"application/vnd.openxmlformats-officedocument.spreadsheetml.{kind}+xml"/>'
        for part, kind in kinds.items()
    )
    targets = "".join(
        f'<Relationship Id="{part}" Type="{RELATIONS}/{kinds[part]}" Target="{part}.xml"/>'
        for part in ("sheet", "sharedStrings")
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">{types}</Types>',
        "xl/workbook.xml": f'<workbook {main}><sheets><sheet name="A" sheetId="1" r:id="sheet"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">{targets}'
        "</Relationships>",
        "xl/sheet.xml": f"<worksheet {main}><sheetData>{rows}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst {main}>{texts}</sst>",
    }
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def write_cells(*cells: str | float) -> str:
    """Return the XML of a row."""
    return "<row>{}</row>".format(
        "".join(
            f'<c t="str"><v>{escape(cell)}</v></c>'
            if isinstance(cell, str)
            else f"<c><v>{cell}</v></c>"
            for cell in cells
        )
    )


def test_an_import_is_previewed_and_its_refused_rows_are_corrected_and_imported(
    open_page: Callable[..., Page], garden: Service
) -> None:
    old = {1: NewPlant(1, "Abies", "Abies"), 2: NewPlant(2, "Picea")}
    page = open_page(*old.values())
    content = (
        "Nr;Preis;Name;Gattung\n1;7;Abies;Abies\n2;8;Another;\n"
        '3;9;"Rosa ×";Rosa\n\n=1+1;7;Tilia;-7\n'
    )

    drop(page, content.encode(), name="my.plants.csv")
    expect(page.locator("#preview-said")).to_have_text("1 new, 1 the same, 1 change, 1 refused")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_have_count(0)
    drop(page, content.encode(), name="my.plants.csv")

    preview = page.get_by_role("dialog", name="Import my.plants.csv")
    said = preview.locator("#preview-said")
    expect(said).to_have_text("1 new, 1 the same, 1 change, 1 refused")
    expect(preview.get_by_text("Not used: Preis")).to_be_visible()
    shown = preview.get_by_role("table", name="The first plants").locator("tbody tr")
    expect(shown.nth(2)).to_have_text("3Rosa ×Rosa")
    refused = ["6", "The id must be a whole number", "=1+1 · 7 · Tilia · -7"]
    assert listed_errors(page) == [refused]
    expect(preview.get_by_role("group", name="1 plant exists")).to_contain_text("Another")
    for width in (1280, 390):
        page.set_viewport_size({"width": width, "height": 844})
        assert_accessible(page)
    preview.get_by_label("Tag").select_option("None")
    expect(preview.get_by_label("Tag")).to_have_value("-1")
    drop(page, b"id,name\n7,Lost\n", "other.csv")  # is ignored
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keep editing").click()
    preview.get_by_label("Tag").select_option("Gattung")
    assert stored_plants(garden.database) == old
    expect(said).to_have_text("1 new, 1 the same, 1 change, 1 refused")
    preview.get_by_role("button", name="Import", exact=True).click()
    expect(preview.get_by_role("radio", name="Update")).to_be_focused()  # It must be chosen.
    preview.get_by_role("radio", name="Skip").check()
    import_rows(page, "1 new, 1 the same, 1 skipped, 1 refused")
    result = page.locator("#import-said")
    expect(result).to_have_text("Import finished: 1 stored, 1 already there, 1 skipped, 1 refused.")
    expect(page.get_by_role("heading", name="Import")).to_be_focused()
    assert_accessible(page)
    name, saved = save(page, "link", "Save the refused rows")
    assert name == "my.plants-refused.csv"
    rows_ = saved.decode("utf-8-sig").splitlines()
    assert rows_[0] == "Nr;Preis;Name;Gattung;reason"
    corrected = "\n".join(rows_).replace("=1+1;", "5;")
    drop(page, corrected.encode("utf-8-sig"), name)
    import_rows(page, "1 new")

    expect(page.locator("#said")).to_have_text(f"1 plant imported: {name}")
    expect(page.locator("#import")).to_be_hidden()
    new = [NewPlant(3, "Rosa ×", "Rosa"), NewPlant(5, "Tilia", "-7")]
    assert stored_plants(garden.database) == old | {plant.id: plant for plant in new}
    expect(page.get_by_role("heading", name="Plants")).to_be_focused()


@pytest.mark.parametrize(
    ("encoding", "choice", "name"),
    [
        ("utf-16", None, "Łąka “biała”"),
        ("cp1250", None, "róża biała"),
        ("cp1250", "Central European (windows-1250)", "řeřicha"),
        ("cp1251", None, "Роза белая"),
        ("cp1252", None, "Äpfel “süß”"),
        ("shift_jis", "Japanese (shift_jis)", "バラ"),
    ],
)
def test_a_file_of_excel_is_stored_with_the_encoding_that_the_preview_shows(
    open_page: Callable[..., Page], garden: Service, encoding: str, choice: str | None, name: str
) -> None:
    page = open_page()
    content = f"sep=;\r\nid;name\r\n1;{name}\r\n"

    drop(page, content.encode(encoding))
    expect(page.locator("#preview td").first).to_have_text("1")
    expect(page.get_by_label("Encoding")).to_have_count(0 if encoding == "utf-16" else 1)
    if choice:
        page.get_by_label("Encoding").select_option(choice)
    expect(page.locator("#preview td").nth(1)).to_have_text(name)
    import_rows(page, "1 new")

    expect(page.locator("#said")).to_have_text("1 plant imported: plants.csv")
    assert stored_plants(garden.database) == {1: NewPlant(1, name)}


def test_tags_of_a_file_without_names_are_imported_and_undone_after_other_changes(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(NewPlant(1, "Abies", "Bed"), NewPlant(2, "Rosa"))
    said = page.locator("#said")
    drop(page, b"id,tag\n1,Pot\n9,Pot\n")
    import_rows(page, "0 new, 1 change, 1 refused")
    expect(said).to_have_text("1 plant imported: plants.csv")
    assert stored_plants(garden.database)[1] == NewPlant(1, "Abies", "Pot")
    for change in range(2):
        choose(page, "Edit", 2)
        store(page, name=f"Rosa {change}")
        expect(said).to_have_text(f"Saved: 2 Rosa {change}")
    page.reload()

    page.get_by_role("button", name="Undo…").click()
    expect(page.get_by_role("radio")).to_have_count(1)
    assert_accessible(page)
    page.get_by_role("radio", name="1 plant imported").check()
    page.get_by_role("dialog").get_by_role("button", name="Undo", exact=True).click()

    expect(said).to_have_text("1 plant changed back")
    expect(page.get_by_role("button", name="Undo…")).to_be_hidden()
    left = [NewPlant(1, "Abies", "Bed"), NewPlant(2, "Rosa 1")]
    assert list(stored_plants(garden.database).values()) == left


def test_a_workbook_updates_plants_and_pasted_rows_get_ids_and_both_can_be_undone(
    open_page: Callable[..., Page], garden: Service
) -> None:
    old = {1: NewPlant(1, "Old", "Abies"), 2: NewPlant(2, "Picea", "Picea")}
    page = open_page(*old.values())
    rows = (
        write_cells("Nursery Greene")
        + write_cells("id", "name", "price")
        + write_cells(1, "New & ×", 3.5)
        + write_cells(2, "Picea", 4)
        + write_cells(3, "Rosa", 5)
        + "<row><c><v>4</v></c><c><f>B9</f></c></row>"
    )
    file: FilePayload = {"name": "a.xlsx", "mimeType": "", "buffer": make_workbook(rows)}
    undo = page.get_by_role("button", name="Undo", exact=True)

    page.get_by_role("button", name="Import", exact=True).click()
    assert_accessible(page)
    with page.expect_file_chooser() as chooser:
        page.locator("label").get_by_text("Choose a file").click()
    chooser.value.set_files(file)
    expect(page.locator("#preview-said")).to_have_text("1 new, 1 the same, 1 change, 1 refused")
    assert listed_errors(page)[-1][:2] == [
        "6",
        "A formula without a result: open the file in a spreadsheet, and save it",
    ]
    title = page.locator("#preview-plants .above")
    expect(title).to_have_text("Row 1: Nursery Greene")
    assert_accessible(page)
    title.click()
    header = page.get_by_label("Header")
    expect(header).to_have_value("0")
    header.select_option("Row 2: id · name · price")
    page.get_by_role("radio", name="Update").check()
    import_rows(page, "1 new, 1 the same, 1 change, 1 refused")
    expect(page.locator("#said")).to_have_text("2 plants imported: a.xlsx")
    assert stored_plants(garden.database)[1] == NewPlant(1, "New & ×", "Abies")
    undo.click()
    expect(page.locator("#said")).to_have_text("1 plant removed, 1 changed back")
    assert stored_plants(garden.database) == old

    page.get_by_role("button", name="Import", exact=True).click()
    page.get_by_label("Or paste rows").fill("Rosa, alba\tRosa\nTilia\t\n")
    expect(page.get_by_role("dialog", name="Import Pasted rows")).to_be_visible()
    expect(page.locator("#preview-said")).to_have_text("2 new")
    page.go_back()
    page.get_by_role("button", name="Keep editing").click()
    import_rows(page, "2 new")
    expect(page.locator("#said")).to_have_text("2 plants imported: Pasted rows")
    assert_accessible(page)
    assert save(page, "link", "Save the file with its ids")[0] == "pasted-rows-with-ids.csv"
    new = [plant for id_, plant in stored_plants(garden.database).items() if id_ not in old]
    assert [(plant.name, plant.tag) for plant in new] == [("Rosa, alba", "Rosa"), ("Tilia", None)]
    undo.click()
    expect(page.locator("#said")).to_have_text("2 plants removed")
    assert stored_plants(garden.database) == old


def test_rows_with_the_same_id_are_named_and_the_last_one_is_imported_if_this_is_chosen(
    open_page: Callable[..., Page], garden: Service
) -> None:
    page = open_page(NewPlant(7, "Old"))
    drop(page, b"id,name\n7,Abies\n8,Acer\n7,Rosa\n8,Acer\n")
    said = page.locator("#preview-said")
    expect(said).to_have_text("1 new, 1 the same, 2 refused")
    assert listed_errors(page) == [
        ["2", "Row 4 has this id, too", "7 · Abies"],
        ["4", "Row 2 has this id, too", "7 · Rosa"],
    ]
    assert_accessible(page)

    page.get_by_role("checkbox", name="import the last one").check()
    page.get_by_role("radio", name="Update").check()
    import_rows(page, "1 new, 1 the same, 1 change, 1 refused")

    expect(page.locator("#said")).to_have_text("2 plants imported: plants.csv")
    stored = {7: NewPlant(7, "Rosa"), 8: NewPlant(8, "Acer")}
    assert stored_plants(garden.database) == stored


def test_an_import_whose_page_is_reloaded_says_how_many_plants_are_stored_and_is_undone(
    open_page: Callable[..., Page], garden: Service, client: Client
) -> None:
    page = open_page()
    said = page.locator("#said")
    page.on("dialog", lambda dialog: dialog.accept())
    many = 150_000
    drop(page, b"id,name\n" + b"".join(b"%d,Abies\n" % id_ for id_ in range(many)))
    import_rows(page, f"{many:,} new")
    wait_until(lambda: page.evaluate("true") and client.send("GET", "/plants?limit=1").json)

    page.reload()
    expect(said).to_have_text(
        re.compile(r"Interrupted: [\d,]+ of 150,000 plants imported: plants.csv")
    )
    assert_accessible(page)
    stored = len(stored_plants(garden.database))
    assert f" {stored:,} of" in said.inner_text()
    page.get_by_role("button", name="Undo", exact=True).click()

    expect(said).to_have_text(f"{stored:,} plants removed")
    assert not stored_plants(garden.database)


def test_all_plants_or_those_of_a_search_or_selection_are_saved(
    open_page: Callable[..., Page], garden: Service
) -> None:
    many = [NewPlant(id_, f'Rosa "{id_}", ×\n', "Rosa & Co") for id_ in range(1_500)]
    page = open_page(NewPlant(-7, "=1+1", "Other"), *many)

    name, content = export(page, "CSV")
    run(garden.folder, "export", "expected.csv")
    expected = b"\xef\xbb\xbf" + (garden.folder / "expected.csv").read_bytes()
    assert (name, content) == ("plants.csv", expected)
    expect(page.locator("#said")).to_have_text("Exported: plants.csv")
    page.get_by_role("link", name="Other", exact=True).click()
    expect(page.locator("#count")).to_have_text("1 plant")
    other = export(page, "CSV")
    assert other == ("plants-Other.csv", b"\xef\xbb\xbfid,name,tag\r\n-7,=1+1,Other\r\n")

    name, content = export(page, "Excel")
    with ZipFile(BytesIO(content)) as archive:
        cells = re.findall("<c .*?/c>", archive.read("xl/worksheets/sheet1.xml").decode())
        texts = archive.read("xl/sharedStrings.xml").decode()
    assert (name, len(cells)) == ("plants-Other.xlsx", 6)
    assert all('t="s"' in cell for cell in cells)
    assert re.findall("<t.*?>(.*?)<", texts) == ["id", "name", "tag", "-7", "=1+1", "Other"]

    page.locator("#plants").get_by_role("checkbox").check()
    page.locator("#selected").get_by_role("button", name="Export").click()
    assert_accessible(page)
    with page.expect_download() as download:
        page.locator("#selected").get_by_role("button", name="1 plant as Excel").click()
    assert download.value.suggested_filename == "plants-selected.xlsx"

    drop(page, content, name)
    expect(page.locator("#preview-said")).to_have_text("0 new, 1 the same")


@pytest.mark.parametrize("kind", ["wide", "long", "slow"])
def test_a_workbook_that_would_stop_the_tab_is_refused_and_the_tab_goes_on(
    open_page: Callable[..., Page], kind: str
) -> None:
    page = open_page()
    texts = ""
    if kind == "wide":
        cells = (f'<row r="{row}"><c r="XFD{row}"><v>1</v></c></row>' for row in range(1, 100_001))
        rows = "".join(cells)
    elif kind == "long":
        rows = '<row><c t="s"><v>0</v></c></row>' * 100_000
        texts = f"<si><t>{'x' * 40_000_000}</t></si>"
    else:  # SheetJS compares each cell with all these formulas.
        rows = '<row><c><f t="array" ref="A1:B2">B1</f><v>1</v></c></row>' * 400_000
    content = make_workbook(rows, texts)

    drop(page, content, "a.xlsx")

    said = "too long" if kind == "slow" else re.compile("too large|too long")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text(said)
    page.keyboard.press("Escape")
    drop(page, b"id,name\n1,Rosa\n")
    expect(page.locator("#preview-said")).to_have_text("1 new")


def test_an_import_is_stopped_and_continued_with_the_keyboard_and_not_lost_with_its_tab(
    open_page: Callable[..., Page], garden: Service, watch: Watch
) -> None:
    watch.service_goes_away = True  # The browser logs that it cannot read a file.
    page = open_page()
    error, result = page.locator("#import-error"), page.locator("#said")
    stop = page.get_by_role("button", name="Stop")
    drop(page, CONTENT)
    expect(page.locator("#preview-said")).to_have_text("5,000 new")
    garden.process.send_signal(signal.SIGSTOP)
    import_rows(page, "5,000 new")
    expect(stop).to_be_visible()
    with page.expect_event("dialog") as question:
        page.close(run_before_unload=True)
    assert question.value.type == "beforeunload"
    question.value.dismiss()

    stop.focus()
    page.keyboard.press("Enter")
    expect(error).to_have_text(f"Stopped. {SAFE}")
    expect(stop).to_be_hidden()
    expect(page.get_by_role("button", name="Try again")).to_be_focused()
    assert_accessible(page)
    garden.process.send_signal(signal.SIGCONT)
    page.keyboard.press("Enter")
    expect(result).to_have_text(re.compile("imported|already there"))
    expect(error).to_be_hidden()
    expect(page.get_by_role("heading", name="Plants")).to_be_focused()
    assert len(stored_plants(garden.database)) == ROWS

    drop(page, CONTENT + b"-1,Rosa\n")
    expect(page.locator("#preview-said")).to_have_text("1 new, 5,000 the same")
    garden.process.send_signal(signal.SIGSTOP)
    import_rows(page, "1 new, 5,000 the same")
    expect(stop).to_be_visible()
    page.get_by_role("button", name="Sign out").dispatch_event("click")
    garden.process.send_signal(signal.SIGCONT)
    expect(page.get_by_label("Access token")).to_be_focused()
