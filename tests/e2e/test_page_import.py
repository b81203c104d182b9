"""The import on the page, in a real browser, compared with the import on the command line."""

import json
import re
import signal
from base64 import b64encode
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, BrowserContext, Dialog, Page, Route, expect

from plantstore.plants import NewPlant
from plantstore.store import Deletion
from support.browser import Watch, enter
from support.command import run
from support.csv_cases import CSV_CASES, Case
from support.postgres import wait_until
from support.service import Service, opened, stored_plants

pytestmark = pytest.mark.engines("sqlite")

# CSV as spreadsheets, people and attackers write it.
AWKWARD = {
    "plain": b"id,name,tag\n1,Abies balsamea (L.) Mill.,Abies\n2,Rosa \xc3\x97 damascena,\n",
    "the mark of UTF-8, and carriage returns": b"\xef\xbb\xbfid,name\r\n1,Abies\r\n2,Picea\r\n",
    "quotes": b'id,name,tag\n1,"Abies, the ""fir""",Abies\n2,"two\nlines",\n3,ab"c,x\n',
    "other columns in another order": b"price,tag,name,id\n5,Abies,Abies alba,1\n",
    "large ids": b"id,name\n9223372036854775807,Big\n9223372036854775806,Beside\n",
    "numbers in other forms": b"id,name\n1e3,A\n12.0,B\n-0,C\n007,D\n+1,E\n1.5,F\n,G\n",
    "ids out of bounds": b"id,name\n9223372036854775808,A\n-9223372036854775808,B\n",
    "rows of other lengths": b"id,name,tag\n1,A\n2,B,b\n3,C,c,d\n",
    "blank lines": b"id,name\n\n1,A\n\r\n2,B\n\n",
    "no end of the last line": b"id,name\n1,A\n2,B",
    "a quote that is open": b'id,name\n1,"A\n2,B\n3,C\n',
    "a quote that is closed too early": b'id,name\n1,"A"B\n2,C\n',
    "the same id twice": b"id,name\n1,A\n1,A\n1,B\n",
    "what cannot be stored": b"id,name\n1,A\x00B\n2,C\n",
    "a name too large": b"id,name\n1," + b"A" * 2**21 + b"\n2,B\n",
    "only a header": b"id,name,tag\n",
}


def drop(page: Page, content: bytes, name: str = "plants.csv") -> None:
    """Drop a file on the page, as a file manager would."""
    page.evaluate(
        """([text, name]) => {
            const bytes = Uint8Array.from(atob(text), (char) => char.charCodeAt(0));
            const dataTransfer = new DataTransfer();
            dataTransfer.items.add(new File([bytes], name));
            for (const kind of ["dragover", "drop"]) {
                const options = { dataTransfer, bubbles: true, cancelable: true };
                document.body.dispatchEvent(new DragEvent(kind, options));
            }
        }""",
        [b64encode(content).decode(), name],
    )


def rejects_of(page: Page) -> list[dict[str, Any]]:
    """Save the refused rows through the link of the page, and read the file."""
    if page.get_by_role("link", name="Save the refused rows").is_hidden():
        return []
    with page.expect_download() as download:
        page.get_by_role("link", name="Save the refused rows").click()
    text = download.value.path().read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@pytest.fixture(scope="module")
def garden(
    tmp_path_factory: pytest.TempPathFactory, browser: Browser
) -> Iterator[tuple[Service, Page]]:
    """Return a service and its page, shared by many imports."""
    watch = Watch()
    with Service(tmp_path_factory.mktemp("garden")) as service, browser.new_page() as page:
        watch.watch(page)
        enter(page, service, service.token())
        yield service, page
        watch.assert_quiet()


@pytest.mark.parametrize("content", AWKWARD.values(), ids=AWKWARD)
def test_the_page_imports_a_file_as_the_command_line_does(
    garden: tuple[Service, Page], tmp_path: Path, content: bytes
) -> None:
    service, page = garden
    service.change(*[Deletion(id_) for id_ in stored_plants(service.database)])
    (tmp_path / "plants.csv").write_bytes(content)
    run(tmp_path, "import", "plants.csv", "--rejects", "rejects.jsonl")
    rejects = (tmp_path / "rejects.jsonl").read_text(encoding="utf-8").splitlines()

    drop(page, content)
    expect(page.get_by_text("Import finished")).to_be_visible()

    assert stored_plants(service.database) == stored_plants(f"sqlite:///{tmp_path}/plants.db")
    refused = sorted(reject["line"] for reject in rejects_of(page))
    assert refused == sorted(json.loads(reject)["line"] for reject in rejects)


@pytest.mark.parametrize("case", CSV_CASES, ids=lambda case: case.name)
def test_the_page_passes_the_csv_cases_it_shares_with_the_command_line(
    garden: tuple[Service, Page], case: Case
) -> None:
    service, page = garden
    service.change(*[Deletion(id_) for id_ in stored_plants(service.database)])

    drop(page, case.content)
    ended = page.locator("#import-said, #import-error").filter(has_text=re.compile("."))
    expect(ended).to_be_visible()

    assert stored_plants(service.database) == {plant.id: plant for plant in case.plants}
    assert [(reject["line"], reject["row"]) for reject in rejects_of(page)] == case.refused
    expect(page.locator("#import-warning")).to_have_text(case.warning)
    expect(page.locator("#import-error")).to_have_text(case.error)


def test_an_import_shows_its_progress_and_its_result(page: Page, service: Service) -> None:
    rows = "".join(f"{id_},Plant × {id_},Abies\n" for id_ in range(300))
    content = f"id,name,tag\n{rows}0,Another,\n".encode()
    page.evaluate(
        """() => {
            const progress = document.getElementById("progress");
            window.seen = [];
            new MutationObserver(() => window.seen.push(progress.value))
                .observe(progress, { attributes: true });
        }"""
    )

    drop(page, content)
    expect(page.get_by_role("heading", name="Import")).to_be_focused()
    expect(page.get_by_text("Import finished: 300 stored, 1 refused.")).to_be_visible()

    seen = page.evaluate("window.seen")
    assert seen == sorted(seen)
    assert len([value for value in seen if 0 < value < len(content)]) > 1
    assert seen[-1] == len(content)
    row = page.get_by_role("table", name="Refused rows").get_by_role("row").last
    expect(row).to_contain_text("another plant is stored under the id 0")
    expect(row.get_by_role("rowheader")).to_have_text("302")
    assert len(stored_plants(service.database)) == 300


def test_a_row_over_the_body_limit_is_refused_with_the_message_of_the_service(
    context: BrowserContext, tmp_path: Path
) -> None:
    with Service(tmp_path, "--body-bytes-max", "1024") as service:
        page = context.new_page()
        enter(page, service, service.token())
        drop(page, b"id,name\n1," + b"A" * 500_000 + b"\n2,B\n")

        expect(page.get_by_text("Import finished: 1 stored, 1 refused.")).to_be_visible()
        refused = page.get_by_role("table", name="Refused rows")
        expect(refused).to_contain_text("The body must be no larger than 1024 bytes")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "The file is empty"),
        (b"number;name\n1;A\n", "must name the columns id and name"),
        (b"id,name\n1,\xc4pfel\n", "The file is not UTF-8"),
    ],
)
def test_a_file_that_is_not_csv_of_plants_is_refused_with_the_reason(
    page: Page, content: bytes, message: str
) -> None:
    drop(page, content)

    expect(page.locator("#import-error")).to_contain_text(message)


def test_a_file_can_be_chosen_in_the_file_dialog(page: Page, service: Service) -> None:
    with page.expect_file_chooser() as chooser:
        page.get_by_text("Import CSV").click()
    file = {"name": "p.csv", "mimeType": "text/csv", "buffer": AWKWARD["plain"]}
    chooser.value.set_files(file)  # type: ignore[arg-type]

    expect(page.get_by_text("Import finished: 2 stored, 0 refused.")).to_be_visible()
    assert set(stored_plants(service.database)) == {1, 2}


def test_an_import_continues_after_the_service_is_killed_and_restarted(
    page: Page, service: Service, watch: Watch
) -> None:
    rows = "".join(f"{id_},Plant {id_}\n" for id_ in range(2000))
    watch.service_goes_away = True
    drop(page, f"id,name\n{rows}".encode())
    expect(page.locator("#import-counts")).to_have_text(re.compile(r"^[1-9]"))

    service.stop(signal.SIGKILL)
    expect(page.locator("#import-counts")).to_contain_text("Waiting: The service does not respond")
    with Service(service.folder, "--port", str(service.port)):
        expect(page.get_by_text("Import finished: 2,000 stored, 0 refused.")).to_be_visible()

    assert stored_plants(service.database) == {
        id_: NewPlant(id_, f"Plant {id_}") for id_ in range(2000)
    }


def test_an_import_waits_when_it_exceeds_the_rate_limit(
    context: BrowserContext, tmp_path: Path, watch: Watch
) -> None:
    rows = "".join(f"{id_},Plant {id_}\n" for id_ in range(60))
    with Service(tmp_path, "--rate-per-token", "20/second") as service:
        page = context.new_page()
        enter(page, service, service.token())

        drop(page, f"id,name\n{rows}".encode())
        expect(page.locator("#import-counts")).to_contain_text("Waiting: The token may be used")
        expect(page.get_by_text("Import finished: 60 stored, 0 refused.")).to_be_visible()

    # The page sends six requests at a time and waits for a second after a refusal, so the
    # number of requests is not much higher than the number of rows.
    assert len([url for url in watch.requests if url.endswith("/plants")]) < 150


def test_of_rows_with_the_same_id_the_first_is_stored_however_late_it_arrives(
    page: Page, service: Service
) -> None:
    late: list[Route] = []

    def hold_the_first(route: Route) -> None:
        if "First" in (route.request.post_data or ""):
            late.append(route)
        else:
            route.continue_()

    page.route("**/plants", hold_the_first)

    drop(page, b"id,name\n1,First\n1.0,Second\n10e-1,Third\n2,Other\n")
    expect(page.locator("#import-counts")).to_have_text("1 stored, 0 refused")
    late[0].continue_()
    expect(page.get_by_text("Import finished: 2 stored, 2 refused.")).to_be_visible()

    assert stored_plants(service.database)[1].name == "First"
    assert [reject["line"] for reject in rejects_of(page)] == [3, 4]


def test_refused_rows_are_listed_in_the_order_of_the_file(page: Page) -> None:
    drop(page, b"id,name\n" + b"none,Abies\nrow\n" * 60)

    expect(page.get_by_text("Import finished: 0 stored, 120 refused.")).to_be_visible()
    assert [reject["line"] for reject in rejects_of(page)] == list(range(2, 122))


def test_at_most_ten_thousand_refused_rows_are_kept_and_all_are_counted(page: Page) -> None:
    drop(page, b"id,name\n" + b"row\n" * 10_050)

    expect(page.get_by_text("Import finished: 0 stored, 10,050 refused.")).to_be_visible()
    assert len(rejects_of(page)) == 10_000
    shown = "Showing the first 100 of 10,050 refused rows; the file has 10,000."
    expect(page.get_by_text(shown)).to_be_visible()
    expect(page.get_by_role("table", name="Refused rows").get_by_role("row")).to_have_count(101)


def test_two_files_chosen_together_are_both_refused(page: Page, service: Service) -> None:
    page.locator("#file").evaluate("file => file.multiple = true")
    files = [
        {"name": f"{name}.csv", "mimeType": "text/csv", "buffer": AWKWARD["plain"]}
        for name in ("one", "two")
    ]

    page.locator("#file").set_input_files(files)  # type: ignore[arg-type]

    expect(page.locator("#import-error")).to_have_text("Import one file at a time")
    expect(page.get_by_role("button", name="Stop")).to_be_hidden()
    assert not stored_plants(service.database)


def test_a_second_file_is_refused_while_an_import_runs(page: Page, service: Service) -> None:
    rows = "".join(f"{id_},Plant {id_}\n" for id_ in range(100_000))
    drop(page, f"id,name\n{rows}".encode())
    expect(page.get_by_role("button", name="Stop")).to_be_visible()

    drop(page, b"id,name\n-1,Another\n", name="other.csv")

    expect(page.locator("#import-error")).to_have_text("Import one file at a time")
    expect(page.locator("#import-file")).to_have_text("plants.csv")
    page.get_by_role("button", name="Stop").click()
    expect(page.locator("#import-error")).to_contain_text("Stopped")
    assert -1 not in stored_plants(service.database)


def test_the_browser_asks_before_a_tab_with_a_running_import_is_closed(page: Page) -> None:
    questions: list[str] = []

    def stay(dialog: Dialog) -> None:
        questions.append(dialog.type)
        dialog.dismiss()

    page.on("dialog", stay)
    rows = "".join(f"{id_},Plant {id_}\n" for id_ in range(100_000))
    drop(page, f"id,name\n{rows}".encode())
    expect(page.get_by_role("button", name="Stop")).to_be_visible()

    page.close(run_before_unload=True)
    wait_until(lambda: page.title() == "Plant Store" and bool(questions))

    assert questions == ["beforeunload"]


def test_an_import_can_be_stopped(page: Page, service: Service) -> None:
    rows = "".join(f"{id_},Plant {id_}\n" for id_ in range(100_000))

    drop(page, f"id,name\n{rows}".encode())
    page.get_by_role("button", name="Stop").click()

    expect(page.locator("#import-error")).to_contain_text(
        "Stopped. The plants stored so far remain"
    )
    [counted] = re.findall(r"^(\d+) stored", page.locator("#import-counts").inner_text())
    # Up to six pending requests may be stored after the stop; the page does not count them.
    assert 0 <= len(stored_plants(service.database)) - int(counted) <= 6


def test_an_import_ends_when_its_token_is_revoked(
    context: BrowserContext, service: Service
) -> None:
    rows = "".join(f"{id_},Plant {id_}\n" for id_ in range(100_000))
    page = context.new_page()
    enter(page, service, service.token(name="short"))
    drop(page, f"id,name\n{rows}".encode())
    with opened(service.database) as store:
        store.revoke_token("short", 0)

    expect(page.locator("#token-error")).to_have_text("The token is revoked")
    expect(page.get_by_label("Bearer token")).to_be_focused()
    assert len(stored_plants(service.database)) < 100_000
