"""Pages of lists, and the listings of plants and of tags."""

from collections.abc import Callable, Generator, Iterable
from typing import Final, Generic, NamedTuple, Self, TypeAlias, TypeVar

from plantstore.plants import ID_MIN, NewPlant

# Maximum size of the names and tags in a page of several plants, in bytes of UTF-8. It limits
# the cost of one page, and so how long other requests wait for it. It is large enough for a
# thousand plants of usual size.
PAGE_BYTES_MAX: Final = 128 * 1024


# Plants of a search or of a tag are counted up to this number.
COUNT_MAX: Final = 10_000


class Place(NamedTuple):
    """A place in the order by name: that of a plant, or before all plants with a key.

    Attributes:
        key: of the name (`plantstore.words.order_key`).
        id: of the plant; less than ID_MIN for the place before all plants with the key.

    """

    key: str = ""
    id: int = ID_MIN - 1


class Listing(NamedTuple):
    """Which plants a page has.

    Attributes:
        after: only plants that come after this id in the order of ids; all plants if None.
        limit: maximum number of plants; at least 1.
        tag: only plants with exactly this tag; all plants if None.
        words: only plants whose name has, for each of these, a word that begins with it
            (`plantstore.words`); no plants if it is empty, all plants if None.
        is_descending: whether the plants are in descending order of id.
        has_total: whether the page has the number of plants on all pages.
        is_untagged: only plants without a tag; `tag` is None.
        place: only plants that come after this place, in order by name; the order is that of ids if
            None.

    """

    after: int | None = None
    limit: int = 100
    tag: str | None = None
    words: tuple[str, ...] | None = None
    is_descending: bool = False
    has_total: bool = False
    is_untagged: bool = False
    place: Place | None = None

    @property
    def is_everything(self) -> bool:
        """Whether the pages have all plants of the store."""
        return self.tag is None and self.words is None and not self.is_untagged

    @property
    def is_search(self) -> bool:
        """Whether a page may have to examine plants that do not belong to it."""
        return self.words is not None or (self.place is not None and not self.is_everything)

    def continued(self, end: "int | Place | None") -> "Listing":
        """Return the listing after the end of a page."""
        return self._replace(place=end) if isinstance(end, Place) else self._replace(after=end)


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


# It ends with an id, or in order by name with a place; with None if it is the last page.
PlantsPage: TypeAlias = Page[NewPlant, int | Place | None]


# Number of plants that a scan yields at a time. It is large enough that the engine takes most of
# the time, and small enough for the memory.
SCAN_PLANTS_MAX: Final = 1000


def scan(
    page_of: Callable[[Listing], PlantsPage], listing: Listing
) -> Generator[list[NewPlant], None, None]:
    """Yield the plants of all pages of a listing, whatever its limit is.

    Args:
        page_of: returns a page.
        listing: its first page.

    """
    listing = listing._replace(limit=SCAN_PLANTS_MAX)
    while True:
        page = page_of(listing)
        yield page.items
        if page.is_last:
            return
        listing = listing.continued(page.end)


class TagListing(NamedTuple):
    """Which tags a page has.

    Attributes:
        limit: maximum number of tags; at least 1.
        after: only tags that come after this one in the order: the number of its plants, which
            matters only if `is_by_plants`, and its key (`plantstore.words.tag_key`).
        beginning: only tags whose keys begin so (`plantstore.words.order_beginning`).
        is_by_plants: whether tags with more plants come first. Tags with as many, or else all, are
            in order of their keys.

    """

    limit: int = 100
    after: tuple[int, str] | None = None
    beginning: str = ""
    is_by_plants: bool = False


class TagCount(NamedTuple):
    """A tag, its key, and the number of plants that have it."""

    key: str
    tag: str
    plants: int


class TagsPage(NamedTuple):
    """A page of tags; whether no others follow; and the number of plants that have no tag."""

    tags: list[TagCount]
    is_last: bool
    untagged: int


def page_of_tags(listing: TagListing, following: Iterable[TagCount], untagged: int) -> TagsPage:
    """Return the page that has the first of the tags that follow, up to PAGE_BYTES_MAX."""
    tags: list[TagCount] = []
    size = 0
    for each in following:
        size += len(each.tag.encode())
        if len(tags) == listing.limit or (tags and size > PAGE_BYTES_MAX):
            return TagsPage(tags, is_last=False, untagged=untagged)
        tags.append(each)
    return TagsPage(tags, is_last=True, untagged=untagged)
