"""The page, in a real browser: files are imported, exported and printed.

tests/page reads files in every encoding and format in Node.
"""

import re
from collections.abc import Callable
from io import BytesIO
from zipfile import ZIP_DEFLATED, ZipFile

from playwright.sync_api import BrowserContext, Dialog, FilePayload, Page, expect

from plantstore.plants import NewPlant
from support.browser import HURRY, Watch, drop, export, import_rows, save
from support.command import run
from support.postgres import wait_until
from support.service import Client, Service, stored_plants

OFFICE = "http://schemas.openxmlformats.org"
PACKAGE = f"{OFFICE}/package/2006"
RELATIONS = f"{OFFICE}/officeDocument/2006/relationships"


def make_workbook(rows: str) -> bytes:
    """Return an .xlsx with the parts that spreadsheets write, as far as they matter.

    Args:
        rows: the XML of the rows of its sheet.

    """
    kinds = {"workbook": "sheet.main", "sheet": "worksheet"}
    main = f'xmlns="{OFFICE}/spreadsheetml/2006/main" xmlns:r="{RELATIONS}"'
    types = "".join(
        f'<Override PartName="/xl/{part}.xml" ContentType='
        f'"application/vnd.openxmlformats-officedocument.spreadsheetml.{kind}+xml"/>'
        for part, kind in kinds.items()
    )
    files = {
        "[Content_Types].xml": f'<Types xmlns="{PACKAGE}/content-types">{types}</Types>',
        "xl/workbook.xml": f'<workbook {main}><sheets><sheet name="A" sheetId="1" r:id="sheet"/>'
        "</sheets></workbook>",
        "xl/_rels/workbook.xml.rels": f'<Relationships xmlns="{PACKAGE}/relationships">'
        f'<Relationship Id="sheet" Type="{RELATIONS}/worksheet" Target="sheet.xml"/>'
        "</Relationships>",
        "xl/sheet.xml": f"<worksheet {main}><sheetData>{rows}</sheetData></worksheet>",
    }
    content = BytesIO()
    with ZipFile(content, "w", ZIP_DEFLATED) as archive:
        for name, text in files.items():
            archive.writestr(name, text)
    return content.getvalue()


def test_an_import_is_previewed_and_its_refused_rows_are_corrected_and_imported(
    open_page: Callable[..., Page], garden: Service
) -> None:
    old = {1: NewPlant(1, "Abies", "Abies"), 2: NewPlant(2, "Picea")}
    page = open_page(*old.values())
    content = (
        "Nursery Greene\nNr;Preis;Name;Gattung\n1;7;Abies;Abies\n2;8;Another;\n"
        '3;9;"Rosa ×";Rosa\n\n=1+1;7;Tilia;-7\n'
    )
    preview = page.get_by_role("dialog", name="Import my.plants.csv")
    said = preview.locator("#preview-said")

    drop(page, content.encode(), name="my.plants.csv")
    expect(said).to_have_text("1 new, 1 the same, 1 change, 1 refused")
    expect(preview.get_by_text("Not used: Preis")).to_be_visible()
    expect(page.locator("#preview-plants .above")).to_have_text(
        ["Row 1: Nursery Greene", "Row 2: Nr · Preis · Name · Gattung"]
    )
    shown = preview.get_by_role("table", name="The first plants").locator("tbody tr")
    expect(shown.nth(4)).to_have_text("3Rosa ×Rosa")
    expect(preview.get_by_role("list", name="Refused rows").get_by_role("listitem")).to_have_text(
        ["Row 7: The id must be a whole number=1+1 · 7 · Tilia · -7"]
    )
    expect(preview.get_by_role("group", name="1 stored plant differs")).to_contain_text("Another")
    preview.get_by_label("Tag").select_option("None")
    expect(preview.get_by_label("Tag")).to_have_value("-1")
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Keep editing").click()
    preview.get_by_label("Tag").select_option("Gattung")
    assert stored_plants(garden.database) == old
    expect(said).to_have_text("1 new, 1 the same, 1 change, 1 refused")
    preview.get_by_role("button", name="Import", exact=True).click()
    expect(preview.get_by_role("radio", name="Update")).to_be_focused()  # It must be chosen.
    preview.get_by_role("radio", name="Update").check()
    changing = preview.get_by_role("list", name="Plants that change")
    expect(changing).to_contain_text("2: Picea → Another")
    preview.get_by_role("radio", name="Skip").check()
    import_rows(page, "1 new, 1 the same, 1 skipped, 1 refused")
    said = preview.get_by_text("Imported: 1 new, 1 refused")
    expect(said).to_be_visible()
    name, saved = save(page, "button", "Save the refused rows")
    assert name == "my.plants-refused.csv"
    page.get_by_role("button", name="Close", exact=True).click()
    corrected = saved.decode("utf-8-sig").replace("=1+1;", "5;")
    drop(page, corrected.encode("utf-8-sig"), name)
    dialog = page.get_by_role("dialog")
    expect(dialog.get_by_role("button", name="Import", exact=True)).to_be_focused()
    import_rows(page, "1 new")

    expect(page.locator("#said")).to_have_text(f"1 new: {name}")
    expect(page.get_by_role("dialog")).to_be_hidden()
    new = [NewPlant(3, "Rosa ×", "Rosa"), NewPlant(5, "Tilia", "-7")]
    assert stored_plants(garden.database) == old | {plant.id: plant for plant in new}


def test_a_workbook_that_would_stop_the_tab_is_refused_and_the_tab_goes_on(
    context: BrowserContext, open_page: Callable[..., Page]
) -> None:
    context.add_init_script(HURRY)
    page = open_page()
    # SheetJS compares each cell with all these formulas.
    cell = '<row><c><f t="array" ref="A1:B2">B1</f><v>1</v></c></row>'

    drop(page, make_workbook(cell * 400_000), "a.xlsx")

    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("too long")
    page.keyboard.press("Escape")
    drop(page, b"id,name\n1,Rosa\n")
    expect(page.locator("#preview-said")).to_have_text("1 new")


def test_an_import_whose_page_is_reloaded_is_in_the_list_of_changes_and_is_undone(
    open_page: Callable[..., Page], garden: Service, client: Client
) -> None:
    page = open_page()
    said, asked = page.locator("#said"), list[str]()

    def leave(dialog: Dialog) -> None:
        asked.append(dialog.type)
        dialog.accept()

    page.on("dialog", leave)
    many = 150_000
    drop(page, b"id,name\n" + b"".join(b"%d,Abies\n" % id_ for id_ in range(many)))
    import_rows(page, f"{many:,} new")
    wait_until(lambda: page.evaluate("true") and client.send("GET", "/plants?limit=1").json)

    page.reload()
    assert asked == ["beforeunload"]
    page.get_by_role("heading", name="Plants").press("Control+z")
    undoing = page.get_by_role("dialog", name="Undo a change")
    expect(undoing).to_contain_text("150,000 new: plants.csv, maybe not all")
    undoing.get_by_role("button", name="Undo", exact=True).click()

    expect(said).to_have_text(re.compile(r"[\d,]+ plants removed"))
    assert not stored_plants(garden.database)


def test_the_plants_of_a_list_are_exported_and_an_export_is_imported_unchanged(
    open_page: Callable[..., Page], garden: Service, watch: Watch
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
    name, content = export(page, "Excel")
    assert name == "plants Other.xlsx"
    file: FilePayload = {"name": name, "mimeType": "", "buffer": content}
    page.get_by_role("button", name="Import", exact=True).click()
    with page.expect_file_chooser() as chooser:
        page.locator("label").get_by_text("Choose a file").click()
    chooser.value.set_files(file)

    expect(page.locator("#preview-said")).to_have_text("Nothing to import: 1 the same")
    page.get_by_role("button", name="Close", exact=True).click()
    watch.service_goes_away = True
    page.route("**/plants.csv?*", lambda route: route.abort())
    page.get_by_role("button", name="More", exact=True).click()
    page.get_by_role("button", name="as CSV").click()
    expect(page.locator("#said")).to_have_text("The service does not respond")


def test_plants_are_printed_as_a_list_or_as_labels_on_sheets(
    context: BrowserContext, open_page: Callable[..., Page]
) -> None:
    context.add_init_script("window.print = () => {}")
    page = open_page(*(NewPlant(id_, f"Plant {id_}", "Abies") for id_ in range(1, 67)))

    def print_pages(kind: str) -> int:
        page.get_by_role("button", name="More", exact=True).click()
        page.get_by_role("button", name="Print", exact=True).click()
        page.get_by_role("radio", name=kind).check()
        page.get_by_role("dialog").get_by_role("button", name="Print", exact=True).click()
        expect(page.get_by_role("dialog")).to_be_hidden()
        page.emulate_media(media="print")
        expect(page.get_by_role("button")).to_have_count(0)
        expect(page.locator("#sheet").get_by_text("Plant 66", exact=True)).to_be_visible()
        sheets = re.findall(rb"/Type\s*/Page\b", page.pdf(prefer_css_page_size=True))
        page.emulate_media(media="null")
        return len(sheets)

    assert print_pages("Labels 3 × 8") == 3
    assert print_pages("Labels 5 × 13") == 2
    assert print_pages("Labels 3 × 10 on Letter") == 3
    assert print_pages("Labels, one per page") == 66
    assert print_pages("List") == 2
