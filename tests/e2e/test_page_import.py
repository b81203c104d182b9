"""The import on the page, in a real browser."""

from pathlib import Path

import pytest
from playwright.sync_api import BrowserContext, Page, expect

from plantstore.plants import NewPlant
from support.browser import Watch, drop, enter, listed_errors, rows
from support.service import Service, opened, stored_plants

PLAIN = "id,name,tag\n1,Abies balsamea (L.) Mill.,Abies\n2,Rosa × damascena,\n".encode()


def test_an_import_counts_each_outcome_and_lists_the_refused_rows(
    page: Page, service: Service
) -> None:
    service.change(NewPlant(1, "Abies"), NewPlant(2, "Picea"))

    drop(page, 'id,name,tag\n1,Abies,\n2,Another,\n3,"Rosa ×",Rosa\n\nfour,Tilia,\n'.encode())

    result = "Import finished: 1 stored, 1 already there, 2 refused."
    expect(page.locator("#import-said")).to_have_text(result)
    expect(page.get_by_role("heading", name="Import")).to_be_focused()
    taken = "`id` is taken: another plant is stored under the id 2"
    integer = f'`id` must be an integer from {-(2**63)} to {2**63 - 1}, got "four"'
    assert listed_errors(page) == [["3", taken, "2,Another,"], ["6", integer, "four,Tilia,"]]
    assert stored_plants(service.database) == {
        1: NewPlant(1, "Abies"),
        2: NewPlant(2, "Picea"),
        3: NewPlant(3, "Rosa ×", "Rosa"),
    }
    assert [row[0] for row in rows(page)] == ["1", "2", "3"]
    for name in ("Stop", "Try again"):
        expect(page.get_by_role("button", name=name)).to_be_hidden()


def test_plants_that_exist_are_updated_if_this_is_chosen(page: Page, service: Service) -> None:
    service.change(NewPlant(1, "Old", "Abies"), NewPlant(2, "Picea"))
    page.get_by_role("checkbox", name="Update plants that exist").check()

    drop(page, b"id,name\n1,New\n2,Picea\n3,Rosa\n")

    result = "Import finished: 1 stored, 1 already there, 1 updated."
    expect(page.locator("#import-said")).to_have_text(result)
    expect(page.get_by_role("link", name="Save the refused rows")).to_be_hidden()
    assert stored_plants(service.database)[1] == NewPlant(1, "New")


def test_without_the_scope_to_update_plants_the_choice_is_not_offered(
    context: BrowserContext, service: Service
) -> None:
    service.change(NewPlant(1, "Old"))
    page = context.new_page()
    enter(page, service, service.token("plants:create", "plants:read"))
    expect(page.get_by_role("button", name="Export as CSV")).to_be_visible()
    expect(page.get_by_role("checkbox", name="Update plants that exist")).to_be_hidden()

    drop(page, b"id,name\n1,New\n2,Picea\n")

    expect(page.locator("#import-said")).to_have_text("Import finished: 1 stored, 1 refused.")
    assert stored_plants(service.database)[1] == NewPlant(1, "Old")


def test_a_row_that_is_not_utf8_is_refused_alone(page: Page, service: Service) -> None:
    drop(page, b"id,name\n1,\xc4pfel\n2,Birne\n")

    expect(page.locator("#import-said")).to_have_text("Import finished: 1 stored, 1 refused.")
    assert listed_errors(page) == [["2", "The row is not UTF-8", "1,\ufffdpfel"]]
    assert stored_plants(service.database) == {2: NewPlant(2, "Birne")}


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty"),
        (b"number;name\n1;A\n", "must name the columns id and name"),
    ],
)
def test_a_file_that_is_not_csv_of_plants_is_refused_with_the_reason(
    page: Page, content: bytes, message: str
) -> None:
    drop(page, content)

    expect(page.locator("#import-error")).to_contain_text(message)
    expect(page.locator("#import-error")).not_to_contain_text("stored")
    expect(page.get_by_role("button", name="Try again")).to_be_hidden()


def test_a_file_can_be_chosen_in_the_file_dialog(page: Page, service: Service) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_text("Import CSV").click()
    file = {"name": "p.csv", "mimeType": "text/csv", "buffer": PLAIN}
    chooser.value.set_files(file)  # type: ignore[arg-type]

    expect(page.locator("#import-said")).to_have_text("Import finished: 2 stored.")
    assert set(stored_plants(service.database)) == {1, 2}


def test_two_files_chosen_together_are_both_refused(page: Page, service: Service) -> None:
    page.locator("#file").evaluate("file => file.multiple = true")
    files = [
        {"name": f"{name}.csv", "mimeType": "text/csv", "buffer": PLAIN} for name in ("one", "two")
    ]

    page.locator("#file").set_input_files(files)  # type: ignore[arg-type]

    expect(page.locator("#import-error")).to_have_text("Import one file at a time")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert not stored_plants(service.database)


def test_with_a_revoked_token_an_import_leads_to_the_sign_in(
    context: BrowserContext, service: Service, watch: Watch
) -> None:
    watch.service_goes_away = True
    page = context.new_page()
    enter(page, service, service.token(name="short"))
    expect(page.get_by_text("no plants yet")).to_be_visible()
    service.stop()
    with opened(service.database) as store:
        store.revoke_token("short", 0)

    with Service(service.folder, "--port", str(service.port)):
        drop(page, PLAIN)

        expect(page.locator("#token-error")).to_have_text("The token is revoked")
    assert not stored_plants(service.database)


def test_a_script_can_send_a_file_with_fetch(page: Page, service: Service) -> None:
    result = page.evaluate(
        """async ([token, text]) => {
            const headers = { Authorization: `Bearer ${token}` };
            const body = new File([text], "plants.csv");
            return await (await fetch("plants.csv", { method: "POST", headers, body })).json();
        }""",
        [service.token(name="script"), PLAIN.decode()],
    )

    assert (result["stored"], result["errors"]) == (2, [])
    assert set(stored_plants(service.database)) == {1, 2}


def test_an_import_beyond_the_rate_of_the_token_is_refused_with_the_reason(
    context: BrowserContext, tmp_path: Path
) -> None:
    with Service(tmp_path, "--rate-per-token", "1/hour") as service:
        page = context.new_page()
        enter(page, service, service.token())

        drop(page, PLAIN)

        error = page.locator("#import-error")
        expect(error).to_contain_text("The token may be used at most 1 per 1 hour")
        expect(page.get_by_role("button", name="Try again")).to_be_visible()


@pytest.mark.parametrize(
    ("status", "body"),
    [(413, "<h1>413 Request Entity Too Large</h1>"), (502, "<h1>502</h1>"), (200, "{}")],
)
def test_a_response_of_another_server_is_reported_as_such(
    page: Page, status: int, body: str
) -> None:
    page.route("**/plants.csv", lambda route: route.fulfill(status=status, body=body))

    drop(page, PLAIN)

    error = page.locator("#import-error")
    expect(error).to_contain_text(f"The response is not from the Plant Store: {status}")
    expect(error).to_contain_text(
        "Rows that were sent may be stored. Importing the same file again is safe."
    )
    expect(page.get_by_role("button", name="Try again")).to_be_visible()
