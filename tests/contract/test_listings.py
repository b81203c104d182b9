"""Listings of plants, searches, and the tags with their counts: the same in every store."""

import hashlib
import itertools
from collections import Counter
from functools import partial

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plantstore.changes import Change, Deletion, Replacement, Upsert
from plantstore.listings import (
    COUNT_MAX,
    EVERYTHING,
    PAGE_BYTES_MAX,
    Count,
    Listing,
    Place,
    TagListing,
    TagsPage,
)
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant
from plantstore.storage.tables import KEPT_PAGES_MAX, LatestTags
from plantstore.store import Store
from plantstore.words import begins, has_words, order_beginning, order_key, tag_key, words_to_find

pytestmark = pytest.mark.engines("sqlite", "postgres")

BY_NAME = Listing(place=Place())


def listed(store: Store, listing: Listing = BY_NAME) -> list[NewPlant]:
    """Return the plants on all pages of a listing."""
    plants: list[NewPlant] = []
    while True:
        page = store.list_plants(listing)
        assert len(page.items) <= listing.limit
        plants += page.items
        if page.is_last:
            return plants
        assert page.end != listing.place, "the next page is the same"
        listing = listing.continued(page.end)


def tags_of(store: Store, listing: TagListing = TagListing()) -> list[tuple[str, int]]:  # noqa: B008
    """Return the tags on all pages of a listing."""
    tags: list[tuple[str, int]] = []
    while True:
        page = store.list_tags(listing)
        assert len(page.tags) <= listing.limit
        tags += [(each.tag, each.plants) for each in page.tags]
        if page.is_last:
            return tags
        listing = listing._replace(after=(page.tags[-1].plants, page.tags[-1].key))


def by_name(plant: NewPlant) -> tuple[str, int]:
    return order_key(plant.name), plant.id


def test_large_plants_are_on_several_pages_in_order_by_name(store: Store) -> None:
    plants = [NewPlant(id_, "×" * id_ + "y" * 8_000, "🌱" * 1_500) for id_ in range(1, 30)]
    store.apply_changes(plants[:5])
    assert listed(store, BY_NAME._replace(tag=plants[0].tag)) == plants[:5]
    store.apply_changes(plants)

    for limit in (1, 100):
        listing = BY_NAME._replace(limit=limit)
        assert listed(store, listing) == plants
        assert listed(store, listing._replace(tag=plants[0].tag)) == plants
    page = store.list_plants(BY_NAME)
    assert len(page.items) < len(plants)
    assert sum(len(f"{p.name}{p.tag}".encode()) for p in page.items) <= PAGE_BYTES_MAX


def test_a_search_that_finds_very_many_plants_is_in_order_by_name(store: Store) -> None:
    plants = [NewPlant(id_, f"rosa {-id_ % 12_000}", "ab"[id_ % 2]) for id_ in range(24_000)]
    store.apply_changes(
        [*plants, *(NewPlant(-id_, f"acer {id_}", "c") for id_ in range(1, 10_001))]
    )
    expected = sorted(plants, key=by_name)

    listing = BY_NAME._replace(limit=1_000)
    assert len(store.list_plants(listing._replace(tag="c")).items) == 1_000
    assert listed(store, listing._replace(words=("rosa",))) == expected
    assert listed(store, listing._replace(tag="a")) == [p for p in expected if p.tag == "a"]
    assert listed(store, listing._replace(tag="b", words=("119",))) == [
        p for p in expected if p.tag == "b" and has_words(p.name, ["119"])
    ]
    scan = store.scan_plants(listing._replace(words=("rosa",)))
    assert list(itertools.chain.from_iterable(scan)) == expected


def test_a_search_for_a_beginning_of_very_many_words_is_in_order_by_name(store: Store) -> None:
    plants = [NewPlant(id_, f"{'ro' if id_ % 3 else 'ru'}{-id_ % 900}") for id_ in range(1_500)]
    names = [
        "Acer (Ro)",
        "a-ro",
        "RO",
        "r'o",
        "r`o",
        "Róa",
        "Acer × Ro",
        "aro",
        "r o",
        "ru_ro",
        "Zea × rubra",
    ]
    plants += [NewPlant(-id_, name) for id_, name in enumerate(names, 1)]
    store.apply_changes(plants)
    both = [*names[:-2], "ru_ro rx2", "Zea ru ro"]  # the last two have each beginning
    plants += [NewPlant(-100 - id_, f"{name} rx{id_}") for id_, name in enumerate(both)]
    plants += [NewPlant(3_000 + id_, f"rx{id_}") for id_ in range(50)]
    store.apply_changes(plants)

    for words in (("ro",), ("ro", "ru"), ("ro", "rx"), ("ro", "ru", "rx")):
        expected = [plant for plant in sorted(plants, key=by_name) if has_words(plant.name, words)]
        assert expected
        for limit in (7, 1_000):
            assert listed(store, BY_NAME._replace(limit=limit, words=words)) == expected
        assert listed(store, Listing(words=words)) == sorted(expected, key=lambda plant: plant.id)
        for listing in (BY_NAME._replace(words=words), Listing(words=words)):
            scan = store.scan_plants(listing)
            assert list(itertools.chain.from_iterable(scan)) == listed(store, listing)


def test_a_name_that_looks_like_a_tag_or_a_key_is_not_taken_for_one(store: Store) -> None:
    marked = [f"_t{tag_key('a')}", "_u", "_krosa", "x_tb", "＿u"]  # noqa: RUF001 (a wide `_`)
    long = f"_u {'_k' * 300}"
    plants = [NewPlant(id_, name, "b") for id_, name in enumerate([*marked, long])]
    store.apply_changes([*plants, NewPlant(7, "Rosa", "a"), NewPlant(8, "Acer")])

    assert [plant.id for plant in listed(store, Listing(tag="a"))] == [7]
    assert [plant.id for plant in listed(store, Listing(is_untagged=True))] == [8]
    assert tags_of(store) == [("a", 1), ("b", 6)]
    assert store.list_tags(TagListing()).untagged == 1
    assert {plant.id for plant in listed(store)} == {*range(6), 7, 8}
    assert [plant.id for plant in listed(store, Listing(words=("u",)))] == [1, 4, 5]
    assert [plant.id for plant in listed(store, Listing(words=("tb", "x")))] == [3]
    assert store.check().problems == []


def test_pages_of_large_tags_end_early(store: Store) -> None:
    store.apply_changes([NewPlant(id_, "a", f"{id_} {'🌱' * 4_000}") for id_ in range(1, 30)])

    assert len(store.list_tags(TagListing()).tags) < 29
    assert [each for _, each in tags_of(store)] == [1] * 29


def found(store: Store, query: str, **listing: object) -> list[int]:
    """Return the ids of the plants on all pages of a search."""
    wanted = Listing(words=words_to_find(query))._replace(**listing)  # type: ignore[arg-type]
    return [plant.id for plant in listed(store, wanted)]


# Two texts with the same MD5 (Marc Stevens, 2024). The index of tags consists of MD5 hashes.
COLLIDING = "TEXTCOLLBYfGiJUETHQ4h{}cKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"


def test_pages_of_tags_are_kept_up_to_a_number() -> None:
    tags, counted = LatestTags(), list[int]()

    def count(limit: int) -> TagsPage:
        counted.append(limit)
        return TagsPage([], is_last=True, untagged=0)

    for limit in (*range(KEPT_PAGES_MAX), 0, KEPT_PAGES_MAX, 0):
        tags.read(TagListing(limit), 7, partial(count, limit))

    assert counted == [*range(KEPT_PAGES_MAX), KEPT_PAGES_MAX, 0]


def test_long_tags_and_tags_with_the_same_hash_are_distinguished(store: Store) -> None:
    same_hash = [COLLIDING.format(letter) for letter in "AE"]
    assert len({hashlib.md5(tag.encode()).digest() for tag in same_hash}) == 1
    tags = ["x" * 1000, "x" * 1000 + "y", "x" * 1000 + "z", "×" * 800, *same_hash]
    store.apply_changes([NewPlant(id_, "rosa", tags[id_ % 6]) for id_ in range(1800)])
    huge = NewPlant(9999, "rosa", "🌱" * 300_000)
    store.apply_changes([huge])

    for number, tag in enumerate(tags):
        ids = [*range(number, 1800, 6)]
        for words in (None, ("rosa",)):
            listing = Listing(tag=tag, words=words, limit=1000, has_total=True)
            plants = itertools.chain.from_iterable(store.scan_plants(listing))
            assert [plant.id for plant in plants] == ids
            assert store.list_plants(listing).total == Count(300)
    assert store.list_plants(Listing(tag=huge.tag)).items == [huge]


def test_a_search_for_very_many_words_or_words_of_a_later_part_finds_them_all(store: Store) -> None:
    plants = [NewPlant(id_, f"abcde{id_}", f"{id_ % 3}") for id_ in range(11_000)]
    plants += [NewPlant(20_000 + id_, f"ac{id_} abcdf{id_}", "0") for id_ in range(50)]
    betulas = [NewPlant(30_000 + id_, f"betula {id_}", "t") for id_ in range(21_000)]
    store.apply_changes([*plants, *betulas])
    expected = [plant.id for plant in betulas]

    for many, few in (("ab", "ac"), ("abcde", "abcdf")):
        assert found(store, few, limit=20) == [20_000 + id_ for id_ in range(50)]
        assert found(store, few, limit=20, tag="1") == []
        assert found(store, many, limit=1_000)[:11_000] == [*range(11_000)]
    assert found(store, "abcde1", tag="1", limit=7, is_descending=True)[:2] == [10_999, 10_996]
    assert found(store, "be", limit=1_000) == expected
    assert found(store, "betula", limit=1_000, tag="t", is_descending=True) == expected[::-1]
    assert found(store, "betula 9999") == [39_999]
    scan = store.scan_plants(Listing(words=("betula",)))
    assert list(itertools.chain.from_iterable(scan)) == betulas


def test_a_very_long_name_is_searched_from_its_beginning(store: Store) -> None:
    hangul = [chr(code) for code in range(0xAC00, 0xD7A4)]
    many = NewPlant(1, " ".join(hangul))
    store.apply_changes([many, NewPlant(2, "x" * 1_000_000), NewPlant(3, "\ufdfa" * 20_000)])

    assert found(store, hangul[0]) == found(store, hangul[499]) == [1]
    assert found(store, hangul[500]) == []
    assert found(store, "x" * 90) == [2]
    store.apply_changes([Replacement(1, Plant("rosa")), Deletion(2), Deletion(3)])
    assert found(store, hangul[0]) == found(store, "x") == []
    assert store.check().problems == []


def test_totals_are_exact_up_to_a_bound(store: Store) -> None:
    def total(**listing: object) -> Count | None:
        wanted = Listing(limit=1, has_total=True)._replace(**listing)  # type: ignore[arg-type]
        return store.list_plants(wanted).total

    assert total() == Count(0)
    plants = [NewPlant(id_, f"rosa {id_}", "many") for id_ in range(COUNT_MAX)]
    store.apply_changes([*plants, NewPlant(-1, "acer")])

    assert total() == total(after=ID_MAX) == Count(COUNT_MAX + 1)
    assert total(tag="many") == total(words=("rosa",)) == total(words=("ro",)) == Count(COUNT_MAX)
    assert total(words=("acer",), tag="many") == total(words=()) == Count(0)
    store.apply_changes([Upsert(NewPlant(-1, "rosa", "many"))])
    more = Count(COUNT_MAX, is_exact=False)
    assert total(tag="many") == total(words=("rosa",)) == total(words=("ro",)) == more
    store.apply_changes([Deletion(-1), Deletion(5), Deletion(5)])
    assert total() == Count(COUNT_MAX - 1)
    assert store.list_plants(Listing()).total is None
    assert store.check().problems == []


PIECES = [
    *("Quercus", "quer", "Ålesund", "ale", "ﬁg", "fi", "STRASSE", "straße", "İris", "iri", "ΣΊΣ"),
    *("σίς", "e\u0301", "é", "日本", "日", "🌱", "×", "Ⅳ", "iv", "²", "a-b", "हि"),
    *("Bed", "10", "9"),
    *("\ufe0f", "\u200d", "Łódź", "lodz", "Œuvre", "oe", "Þór", "x", "d`Anjou", "danjou", "z" * 90),
]
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
names = st.lists(st.sampled_from(PIECES) | texts, max_size=4).map(" ".join)
tags = st.none() | st.sampled_from(["", "a", "B", "bed 2", "bed 10"])
ids = st.sampled_from([ID_MIN, *range(-1, 8), ID_MAX])
plants = st.builds(NewPlant, ids, names, tags)
changes = plants | st.builds(Upsert, plants) | st.builds(Deletion, ids)
limits = st.sampled_from([1, 3, 50])
words = st.none() | names.map(words_to_find)
places = st.builds(Place, names.map(order_key), st.sampled_from([ID_MIN - 1, 0, ID_MAX]))
wanted_tags = tags | st.just("a\0")
listings = st.one_of(
    st.builds(
        EVERYTHING._replace, limit=limits, tag=wanted_tags, words=words, is_descending=st.booleans()
    ),
    st.builds(EVERYTHING._replace, limit=limits, tag=wanted_tags, words=words, place=places),
    st.builds(Listing(is_untagged=True)._replace, limit=limits, place=st.none() | places),
)


def is_wanted(plant: NewPlant, listing: Listing) -> bool:
    """Return whether a plant belongs to a listing, wherever it begins."""
    if plant.tag is not None if listing.is_untagged else listing.tag not in (None, plant.tag):
        return False
    return listing.words is None or (listing.words != () and has_words(plant.name, listing.words))


def is_behind(plant: NewPlant, place: Place | None) -> bool:
    return place is None or Place(*by_name(plant)) > place


@given(
    st.sampled_from([0, 7]),
    st.lists(st.lists(changes, max_size=8), min_size=1, max_size=3),
    st.lists(listings, min_size=1, max_size=6),
)
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_listing_has_its_plants_and_the_tags_have_their_numbers_after_random_changes(
    store: Store, days: int, batches: list[list[Change]], wanted: list[Listing]
) -> None:
    store.keep_changes(days)
    store.apply_changes([Deletion(plant.id) for plant in listed(store)])

    for batch in batches:
        store.apply_changes(batch)
        stored = [plant for page in store.scan_plants() for plant in page]
        for listing in wanted:
            found = [plant for plant in stored if is_wanted(plant, listing)]
            in_order = found if listing.place is None else sorted(found, key=by_name)
            in_order = in_order[::-1] if listing.is_descending else in_order
            expected = [plant for plant in in_order if is_behind(plant, listing.place)]
            assert listed(store, listing) == expected, listing
            assert [*itertools.chain.from_iterable(store.scan_plants(listing))] == expected
            assert store.list_plants(listing._replace(has_total=True)).total == Count(len(found))
        counts = Counter(plant.tag for plant in stored)
        assert store.list_tags(TagListing()).untagged == counts.pop(None, 0)
        by_tag = sorted(counts.items(), key=lambda each: tag_key(each[0] or ""))
        by_plants = sorted(by_tag, key=lambda each: -each[1])
        for beginning in ("", order_beginning("Bed 1")):
            begun = [each for each in by_tag if begins(tag_key(each[0] or ""), beginning)]
            assert tags_of(store, TagListing(wanted[0].limit, beginning=beginning)) == begun
        assert tags_of(store, TagListing(wanted[0].limit, is_by_plants=True)) == by_plants
    assert store.check().problems == []
