"""An import on the page that is stopped while it still works, and the import after it."""

from playwright.sync_api import Page, expect

from support.browser import drop
from support.service import Service, stored_plants

# From now on, reading a file on the page waits for `release`.
HOLD_FILES = """
() => {
    const released = new Promise((resolve) => { window.release = resolve; });
    const { stream } = Blob.prototype;
    Blob.prototype.stream = function () {
        document.body.dataset.reading = "";
        const transform = async (piece, to) => { await released; to.enqueue(piece); };
        return stream.call(this).pipeThrough(new TransformStream({ transform }));
    };
}
"""


def test_an_import_that_was_stopped_does_not_change_what_the_next_one_shows(
    page: Page, service: Service
) -> None:
    error, result = page.locator("#import-error"), page.locator("#import-said")
    page.evaluate(HOLD_FILES)
    drop(page, b"id,name\n1,A\nx,B\n", name="stopped.csv")
    # The rows that the service refused. A function in the page could not be polled: the policy of
    # the page forbids `eval`.
    expect(page.locator("body[data-reading]")).to_be_attached()

    page.get_by_role("button", name="Stop").click()
    drop(page, b"id,name\n2,C\n", name="early.csv")
    expect(error).to_have_text("Import one file at a time")
    expect(page.locator("#import-file")).to_have_text("stopped.csv")
    page.evaluate("window.release()")
    expect(error).to_contain_text("Stopped. Rows that were sent may be stored.")
    expect(result).to_be_empty()
    drop(page, b"id,name\n3,D\n", name="next.csv")

    expect(result).to_have_text("Import finished: 1 stored.")
    expect(error).to_be_empty()
    expect(page.locator("#import-file")).to_have_text("next.csv")
    expect(page.locator("#import-refused")).to_be_hidden()
    assert stored_plants(service.database).keys() == {1, 3}
