"""The export on the page, in a real browser."""

import pytest
from playwright.sync_api import Page, Route, expect

from plantstore.plants import NewPlant
from support.browser import Watch, save
from support.command import run
from support.service import Service

BUTTON = "Export as CSV"


def test_all_plants_are_saved_with_the_bytes_of_the_command(page: Page, service: Service) -> None:
    plants = [NewPlant(id_, f'Rosa "{id_}", ×\n', "Rosa") for id_ in range(1_500)]
    service.change(*plants, NewPlant(-7, "=1+1"))

    name, content = save(page, "button", BUTTON)

    run(service.folder, "export", "expected.csv")
    assert content == (service.folder / "expected.csv").read_bytes()
    assert name == "plants.csv"
    expect(page.locator("#said")).to_have_text("Exported: plants.csv")


@pytest.mark.parametrize(
    ("tag", "name"),
    [
        ("Abies", "plants-Abies.csv"),
        ("Rosa & Co", "plants-Rosa-Co.csv"),
        ("../../etc/päßwort\n", "plants-etc-päßwort.csv"),
        ("…", "plants.csv"),
        ("T" * 100, f"plants-{'T' * 43}.csv"),
    ],
)
def test_the_plants_of_the_filter_are_saved_in_a_file_with_the_name_of_the_tag(
    page: Page, service: Service, tag: str, name: str
) -> None:
    service.change(NewPlant(1, "One", tag), NewPlant(2, "Two", "Other"), NewPlant(3, "Three", ""))
    page.reload()
    page.locator("#plants .tag a").first.click()
    expect(page.locator("#plants tr")).to_have_count(1)

    named, content = save(page, "button", BUTTON)

    assert named == name
    quoted = f'"{tag}"' if "\n" in tag else tag
    assert content == f"id,name,tag\r\n1,One,{quoted}\r\n".encode()


def test_a_plant_that_csv_cannot_hold_is_named_and_nothing_is_saved(
    page: Page, service: Service
) -> None:
    service.change(NewPlant(1, "One"), NewPlant(7, "Seven", ""))

    page.get_by_role("button", name=BUTTON).click()

    expect(page.locator("#export-error")).to_have_text(
        "Nothing was exported. CSV cannot hold the plant 7: its tag is empty, and in CSV an empty "
        "cell means no tag. Export JSON lines instead with plantstore export or the API"
    )
    expect(page.locator("#said")).to_be_empty()
    page.get_by_role("searchbox").fill("Abies")
    expect(page.locator("#export-error")).to_be_empty()


def test_the_plants_of_a_search_are_saved(page: Page, service: Service) -> None:
    service.change(NewPlant(1, "Rosa × alba"), NewPlant(2, "Abies alba"), NewPlant(3, "Rosa"))
    page.get_by_role("searchbox").fill("alb ro")
    expect(page.locator("#count")).to_have_text("1 plant")

    named, content = save(page, "button", BUTTON)

    assert named == "plants-alb-ro.csv"
    assert content == "id,name,tag\r\n1,Rosa × alba,\r\n".encode()


def test_an_export_that_fails_can_be_repeated(page: Page, service: Service, watch: Watch) -> None:
    watch.service_goes_away = True
    service.change(NewPlant(1, "One"))
    page.route("**/plants.csv", lambda route: route.abort(), times=1)
    error = page.locator("#export-error")

    page.get_by_role("button", name=BUTTON).click()
    expect(error).to_have_text("Nothing was exported. The service does not respond")
    _, content = save(page, "button", BUTTON)

    assert content == b"id,name,tag\r\n1,One,\r\n"
    expect(error).to_be_empty()


def test_of_two_exports_the_later_one_is_saved(page: Page, service: Service) -> None:
    service.change(NewPlant(1, "One"))
    held: list[Route] = []
    page.route("**/plants.csv", lambda route: held.append(route), times=1)  # noqa: PLW0108 (Playwright inspects its signature)
    page.get_by_role("button", name=BUTTON).click()
    expect(page.locator("#said")).to_have_text("Exporting…")

    _, content = save(page, "button", BUTTON)

    held[0].fulfill(status=502, body="late")
    page.evaluate("fetch('healthz')")  # Its response comes after the late one.

    assert content == b"id,name,tag\r\n1,One,\r\n"
    expect(page.locator("#said")).to_have_text("Exported: plants.csv")
    expect(page.locator("#export-error")).to_be_empty()
