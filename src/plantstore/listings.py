"""Pages of lists, and the listing of plants."""

from collections.abc import Callable, Generator
from typing import Final, Generic, NamedTuple, Self, TypeAlias, TypeVar

from plantstore.plants import NewPlant

# Maximum size of the names and tags in a page of several plants, in bytes of UTF-8. It limits
# the cost of one page, and so how long other requests wait for it. It is large enough for a
# thousand plants of usual size.
PAGE_BYTES_MAX: Final = 128 * 1024


# Plants of a search or of a tag are counted up to this number.
COUNT_MAX: Final = 10_000


class Listing(NamedTuple):
    """Which plants a page has.

    Attributes:
        after: only plants that come after this id in the order; all plants if None.
        limit: maximum number of plants; at least 1.
        tag: only plants with exactly this tag; all plants if None.
        words: only plants whose name has, for each of these, a word that begins with it
            (`plantstore.words`); no plants if it is empty, all plants if None.
        is_descending: whether the plants are in descending order of id.
        has_total: whether the page has the number of plants on all pages.

    """

    after: int | None = None
    limit: int = 100
    tag: str | None = None
    words: tuple[str, ...] | None = None
    is_descending: bool = False
    has_total: bool = False

    @property
    def is_everything(self) -> bool:
        """Whether the pages have all plants of the store."""
        return self.tag is None and self.words is None

    def total_of(self, plants: int) -> "Count":
        """Return the total for a count that was stopped after COUNT_MAX + 1 plants."""
        return Count(plants) if self.is_everything else Count.up_to_max(plants)


EVERYTHING: Final = Listing()


class Count(NamedTuple):
    """A number of plants. If `is_exact` is false, there are more of them."""

    plants: int
    is_exact: bool = True

    @classmethod
    def up_to_max(cls, plants: int) -> Self:
        """Return the count of a number of plants, or "at least COUNT_MAX" if it is larger."""
        return cls(min(plants, COUNT_MAX), is_exact=plants <= COUNT_MAX)


ItemT = TypeVar("ItemT")
EndT = TypeVar("EndT")


class Page(NamedTuple, Generic[ItemT, EndT]):
    """A page of a list.

    Attributes:
        items: in the order of the list. A page may be empty even if others follow.
        end: after what the next page begins.
        is_last: whether no items follow now.
        total: the number of items on all pages, if it was asked for.

    """

    items: list[ItemT]
    end: EndT
    is_last: bool
    total: Count | None = None


# It ends with an id, or with None if it is the last page.
PlantsPage: TypeAlias = Page[NewPlant, int | None]


# Number of plants that a scan yields at a time. It is large enough that the engine takes most of
# the time, and small enough for the memory.
SCAN_PLANTS_MAX: Final = 1000


def scan(
    page_of: Callable[[Listing], PlantsPage], listing: Listing
) -> Generator[list[NewPlant], None, None]:
    """Yield the plants of all pages of a listing.

    Args:
        page_of: returns a page.
        listing: its first page.

    """
    while True:
        page = page_of(listing)
        yield page.items
        if page.is_last:
            return
        listing = listing._replace(after=page.end)
