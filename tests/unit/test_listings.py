"""The pages of a listing."""

from plantstore.listings import Listing, Page, scan
from plantstore.plants import NewPlant


def test_a_scan_asks_for_twice_as_many_plants_as_were_on_the_page_before() -> None:
    """A store looks at all of them, also at those that do not fit on the page."""
    fitting = iter([100, 3, 40, 70, 50, 5])
    limits: list[int] = []

    def page_of(listing: Listing) -> Page:
        limits.append(listing.limit)
        first = 0 if listing.after is None else listing.after + 1
        plants = [NewPlant(id_, "a") for id_ in range(first, first + next(fitting))]
        return Page(plants, is_last=len(limits) == 6)

    scanned = [plant.id for plants in scan(page_of, Listing(limit=100)) for plant in plants]

    assert scanned == [*range(268)]
    assert limits == [100, 100, 16, 80, 100, 100]
