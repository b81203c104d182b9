"""Plants in order by name, plants without a tag, and the tags with their counts: in every store."""

import itertools
import random
from collections import Counter

import pytest

from plantstore.changes import Change, Deletion, Replacement, Upsert
from plantstore.listings import PAGE_BYTES_MAX, Count, Listing, Place, TagListing
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant
from plantstore.store import Store
from plantstore.words import begins, has_words, order_beginning, order_key, tag_key

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


IN_ORDER = [
    NewPlant(ID_MIN, "...", ""),
    NewPlant(4, ""),
    NewPlant(7, "Abies"),
    NewPlant(ID_MIN, "Ålesund"),
    NewPlant(-1, "alesund"),
    NewPlant(0, "ÅLESUND", "Rosa"),
    NewPlant(15, "alesund!"),
    NewPlant(16, "'Alesund'"),
    NewPlant(ID_MAX, "alesund"),
    NewPlant(6, "Bed 2"),
    NewPlant(5, "bed 010"),
    NewPlant(8, "Bed 10 b"),
    NewPlant(9, "Bed a"),
    NewPlant(2, "Rosa alba"),
    NewPlant(3, "Rosa × ALBA", "Rosa"),
    NewPlant(1, "Rosa × housei"),
    NewPlant(10, "zz" * 40),
    NewPlant(11, "日本"),
]


def test_plants_are_in_order_by_name_then_by_id(store: Store) -> None:
    plants = IN_ORDER[1:]
    store.apply_changes(random.Random(0).sample(plants, len(plants)))

    for limit in (1, 2, 3, 100):
        assert listed(store, BY_NAME._replace(limit=limit)) == plants
        assert listed(store, BY_NAME._replace(limit=limit, tag="Rosa")) == [plants[4], plants[13]]
    begun = listed(store, Listing(place=Place(order_key("bed 9"))))
    assert begun == plants[plants.index(IN_ORDER[10]) :]
    assert [plant for page in store.scan_plants(BY_NAME) for plant in page] == plants
    assert store.list_plants(BY_NAME._replace(limit=1, has_total=True)).total == Count(17)


def test_a_changed_or_deleted_plant_has_its_new_place_or_none(store: Store) -> None:
    store.apply_changes([NewPlant(id_, name) for id_, name in enumerate("edcba")])

    page = store.list_plants(BY_NAME._replace(limit=2))
    store.apply_changes([Deletion(3), Replacement(4, Plant("z")), Replacement(2, Plant("C"))])

    assert [plant.name for plant in page.items] == ["a", "b"]
    rest = listed(store, BY_NAME.continued(page.end))
    assert [plant.name for plant in rest] == ["C", "d", "e", "z"]
    assert listed(store) == rest
    assert store.check().problems == []


@pytest.mark.engines("sqlite", "postgres")
def test_large_plants_are_on_several_pages_in_order_by_name(store: Store) -> None:
    plants = [NewPlant(id_, "×" * id_ + "y" * 8_000, "🌱" * 1_500) for id_ in range(1, 30)]
    store.apply_changes(plants)

    for limit in (1, 100):
        listing = BY_NAME._replace(limit=limit)
        assert listed(store, listing) == plants
        assert listed(store, listing._replace(tag=plants[0].tag)) == plants
    page = store.list_plants(BY_NAME)
    assert len(page.items) < len(plants)
    assert sum(len(f"{p.name}{p.tag}".encode()) for p in page.items) <= PAGE_BYTES_MAX


@pytest.mark.engines("sqlite", "postgres")
def test_a_search_that_finds_very_many_plants_is_in_order_by_name(store: Store) -> None:
    plants = [NewPlant(id_, f"rosa {-id_ % 12_000}", "ab"[id_ % 2]) for id_ in range(24_000)]
    store.apply_changes(
        [*plants, *(NewPlant(-id_, f"acer {id_}", "c") for id_ in range(1, 10_500))]
    )
    expected = sorted(plants, key=by_name)

    listing = BY_NAME._replace(limit=1_000)
    assert listed(store, listing._replace(words=("rosa",))) == expected
    assert listed(store, listing._replace(tag="a")) == [p for p in expected if p.tag == "a"]
    assert listed(store, listing._replace(tag="b", words=("119",))) == [
        p for p in expected if p.tag == "b" and has_words(p.name, ["119"])
    ]
    scan = store.scan_plants(listing._replace(words=("rosa",)))
    assert list(itertools.chain.from_iterable(scan)) == expected


@pytest.mark.engines("sqlite", "postgres")
def test_a_search_for_a_beginning_of_very_many_words_is_in_order_by_name(store: Store) -> None:
    plants = [NewPlant(id_, f"{'ro' if id_ % 3 else 'ru'}{-id_ % 900}") for id_ in range(1_500)]
    names = ["Acer (Ro)", "a-ro", "RO", "r'o", "r`o", "Róa", "Acer × Ro", "aro", "r o", "ru_ro"]
    plants += [NewPlant(-id_, name) for id_, name in enumerate(names, 1)]
    store.apply_changes(plants)
    expected = [plant for plant in sorted(plants, key=by_name) if has_words(plant.name, ["ro"])]

    assert len(expected) == 1_000 + 8
    for limit in (7, 1_000):
        assert listed(store, BY_NAME._replace(limit=limit, words=("ro",))) == expected


def test_plants_without_a_tag_are_listed(store: Store) -> None:
    store.apply_changes(IN_ORDER[1:])
    store.apply_changes([Upsert(NewPlant(20, "Abies", "")), Upsert(NewPlant(7, "Abies", "x"))])
    untagged = [plant for plant in IN_ORDER[1:] if plant.tag is None and plant.id != 7]

    by_id = Listing(is_untagged=True, limit=2, has_total=True)
    assert listed(store, by_id) == sorted(untagged, key=lambda plant: plant.id)
    assert listed(store, by_id._replace(place=Place())) == untagged
    assert store.list_plants(by_id).total == Count(len(untagged))
    assert store.list_plants(by_id._replace(place=Place())).total == Count(len(untagged))


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


def test_tags_are_listed_with_the_numbers_of_their_plants(store: Store) -> None:
    tags = ["Rosa", "rosa", "ROSA ×", "Bed 2", "bed 10", "", "Abies"]
    tags += ["×" * 2_000, "×" * 2_000 + "y"]
    plants = [NewPlant(id_, "a", tag) for id_, tag in enumerate(tags * 2 + tags[:3] * 2)]
    store.apply_changes([*plants, NewPlant(-1, "b"), NewPlant(-2, "c")])
    store.apply_changes([Deletion(0), Upsert(NewPlant(1, "a", "Rosa"))])
    counts = Counter(dict.fromkeys(tags, 2)) + Counter({"Rosa": 2, "rosa": 1, "ROSA ×": 2})
    by_tag = sorted(counts.items(), key=lambda each: tag_key(each[0]))

    assert by_tag[3][0] == "Abies"
    assert [tag for tag, _ in by_tag][4:6] == ["Bed 2", "bed 10"]
    for limit in (1, 2, 100):
        assert tags_of(store, TagListing(limit)) == by_tag
        by_plants = sorted(by_tag, key=lambda each: -each[1])
        assert tags_of(store, TagListing(limit, is_by_plants=True)) == by_plants
        for text in ("ros", "ROSA ×", "be", "bed 1", "bed", "bed 3", "y"):
            beginning = order_beginning(text)
            wanted = [each for each in by_tag if begins(tag_key(each[0]), beginning)]
            assert tags_of(store, TagListing(limit, beginning=beginning)) == wanted, text
    assert [tag for tag, _ in tags_of(store, TagListing(beginning=order_beginning("BED 1")))] == [
        "bed 10"
    ]
    assert store.list_tags(TagListing(1)).untagged == 2
    assert store.check().problems == []


def test_pages_of_large_tags_end_early(store: Store) -> None:
    store.apply_changes([NewPlant(id_, "a", f"{id_} {'🌱' * 4_000}") for id_ in range(1, 30)])

    assert len(store.list_tags(TagListing()).tags) < 29
    assert [each for _, each in tags_of(store)] == [1] * 29


NAMES = ["Rosa", "rosa ×alba", "ROSA", "Bed 2", "bed 10", "Bed 9", "", "x", "×", "Łódź", "z" * 90]


@pytest.mark.parametrize("days", [0, 7], ids=["without feed", "with feed"])
def test_order_and_tags_are_those_of_a_model_after_random_changes(store: Store, days: int) -> None:
    store.keep_changes(days)
    chance = random.Random(0)
    model: dict[int, NewPlant] = {}
    for _ in range(60):
        batch: list[Change] = []
        for _ in range(chance.randrange(1, 12)):
            id_ = chance.randrange(-20, 20)
            if chance.random() < 0.3:
                batch.append(Deletion(id_))
                model.pop(id_, None)
            else:
                name = chance.choice(NAMES) + chance.choice(["", " 1", " x"])
                plant = NewPlant(id_, name, chance.choice([None, "a", "B", "bed 2", "bed 10"]))
                batch.append(Upsert(plant))
                model[id_] = plant
        store.apply_changes(batch)
        listing = BY_NAME._replace(
            limit=chance.choice([1, 3, 50]),
            tag=chance.choice([None, None, "a"]),
            words=chance.choice([None, ("ros",)]),
            place=Place(order_key(chance.choice(["", "c", "rosa 1"]))),
        )
        assert listed(store, listing) == [
            plant
            for plant in sorted(model.values(), key=by_name)
            if Place(*by_name(plant)) > listing.place  # type: ignore[operator]
            and (listing.tag is None or plant.tag == listing.tag)
            and (listing.words is None or has_words(plant.name, listing.words))
        ]
        counts = Counter(plant.tag for plant in model.values() if plant.tag is not None)
        tags = sorted(counts.items(), key=lambda each: (-each[1], tag_key(each[0])))
        assert tags_of(store, TagListing(chance.choice([1, 9]), is_by_plants=True)) == tags
        assert store.list_tags(TagListing()).untagged == len(model) - counts.total()
