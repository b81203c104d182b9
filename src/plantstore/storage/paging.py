"""Scans of plants. All engines use this function."""

from collections.abc import Callable, Generator
from typing import Final

from plantstore.listings import Listing, Page
from plantstore.plants import NewPlant

# Number of plants that a scan yields at a time. It is large enough that the engine takes most of
# the time, and small enough for the memory.
SCAN_PLANTS_MAX: Final = 1000


def scan(
    page_of: Callable[[Listing], Page], listing: Listing
) -> Generator[list[NewPlant], None, None]:
    """Yield the plants of all pages of a listing.

    Args:
        page_of: returns a page.
        listing: its first page.

    """
    while True:
        page = page_of(listing)
        yield page.plants
        if page.is_last:
            return
        listing = listing._replace(after=page.end)
