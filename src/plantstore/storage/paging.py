"""Pages and scans of plants. All engines use these functions."""

from collections.abc import Callable, Generator
from typing import Final

from plantstore.plants import NewPlant
from plantstore.store import PAGE_BYTES_MAX, Page

# Number of plants that a scan yields at a time. It is large enough that the engine takes most of
# the time, and small enough for the memory.
SCAN_PLANTS_MAX: Final = 1000


def page_plants_max(limit: int, tag: str | None) -> int:
    """Return how many plants a page can hold, at most `limit`, if each plant has the tag."""
    if not tag:
        return limit
    return max(1, min(limit, PAGE_BYTES_MAX // len(tag.encode())))


def scan(page_after: Callable[[int | None], Page]) -> Generator[list[NewPlant], None, None]:
    """Yield the plants of all pages.

    Args:
        page_after: returns the page after an id; the first page for None.

    """
    page = Page([], is_last=False)
    while not page.is_last:
        page = page_after(page.plants[-1].id if page.plants else None)
        yield page.plants
