"""Searches by the words of names: the same in every store."""

import hashlib
import itertools
import unicodedata

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from plantstore.changes import Change, Deletion, Replacement, Upsert
from plantstore.listings import COUNT_MAX, Count, Listing
from plantstore.plants import ID_MAX, ID_MIN, NewPlant, Plant
from plantstore.store import Store
from plantstore.words import words_to_find

pytestmark = pytest.mark.engines("sqlite", "postgres")

TREES = [
    NewPlant(-5, "Quercus alba L.", "Quercus"),
    NewPlant(1, "Quercus robur", "Quercus"),
    NewPlant(2, "Ålesund-Eiche"),
    NewPlant(3, "alba quercina", "Rosa"),
    NewPlant(ID_MAX, "QUERCUS albanica"),
]


def found(store: Store, query: str, **listing: object) -> list[int]:
    """Return the ids of the plants on all pages of a search."""
    wanted = Listing(words=words_to_find(query))._replace(**listing)  # type: ignore[arg-type]
    ids: list[int] = []
    while True:
        page = store.list_plants(wanted)
        assert len(page.items) <= wanted.limit
        ids += [plant.id for plant in page.items]
        if page.is_last:
            return ids
        wanted = wanted.continued(page.end)


def test_a_search_finds_plants_with_words_that_begin_so(store: Store) -> None:
    store.apply_changes(TREES)

    for query, ids in {
        "quer alb": [-5, 3, ID_MAX],
        "ALBA": [-5, 3, ID_MAX],
        "Ale": [2],
        "alé eich": [2],
        "quercus robur x": [],
        "q": [-5, 1, 3, ID_MAX],
        "uercus": [],
        "l": [-5],
        "-": [],
    }.items():
        for limit in (1, 2, 100):
            assert found(store, query, limit=limit) == ids, query
            assert found(store, query, limit=limit, is_descending=True) == ids[::-1], query
    assert found(store, "alb", tag="Quercus") == [-5]
    assert found(store, "quer", tag="Quercus", after=-5) == [1]
    assert found(store, "quer", tag="Quercus", after=1, is_descending=True) == [-5]
    assert found(store, "quer", tag="quercus") == []
    scan = store.scan_plants(Listing(words=("alb",), tag="Rosa"))
    assert list(itertools.chain.from_iterable(scan)) == [TREES[3]]


# Two texts with the same MD5 (Marc Stevens, 2024). The index of tags consists of MD5 hashes.
COLLIDING = "TEXTCOLLBYfGiJUETHQ4h{}cKSMd5zYpgqf1YRDhkmxHkhPWptrkoyz28wnI9V0aHeAuaKnak"


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


def test_what_looks_like_an_apostrophe_is_one_and_a_tatweel_is_nothing(store: Store) -> None:
    names = [
        "Rosa d`Anjou",
        "\u00e9 d\u00b4Anjou",
        "d\u2032Anjou",
        "\u0643\u0640\u062a\u0627\u0628",
    ]
    store.apply_changes([NewPlant(id_, name) for id_, name in enumerate(names)])

    for query, ids in {"danjou": [0, 1, 2], "anj": [0, 1, 2], "\u0643\u062a\u0627": [3]}.items():
        assert found(store, query) == ids
    assert store.check().problems == []


PIECES = [
    *("Quercus", "quer", "Ålesund", "ale", "ﬁg", "fi", "STRASSE", "straße", "İris", "iri", "ΣΊΣ"),
    *("σίς", "e\u0301", "é", "日本", "日", "🌱", "×", "Ⅳ", "iv", "²", "a-b", "हि"),
    *("\ufe0f", "\u200d", "Łódź", "lodz", "Œuvre", "oe", "Þór", "x"),
]
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=8)
names = st.lists(st.sampled_from(PIECES) | texts, max_size=4).flatmap(
    lambda pieces: st.sampled_from(["", " ", "-"]).map(lambda separator: separator.join(pieces))
)
IDS = [ID_MIN, -1, 0, 1, 2, 3, ID_MAX]
ids = st.sampled_from(IDS)
plants = st.builds(NewPlant, ids, names, st.none() | st.sampled_from(["a", "b"]))
changes = st.one_of(
    plants,
    st.builds(Upsert, plants),
    st.builds(Replacement, ids, st.builds(Plant, names)),
    st.builds(Deletion, ids),
)


LETTERS = {"ł": "l", "ø": "o", "đ": "d", "ð": "d", "ħ": "h", "ŋ": "n", "\u0131": "i", "ŧ": "t"}
LETTERS |= {"þ": "th", "æ": "ae", "œ": "oe", "×": " x ", "\u0640": ""}


def plain_words(text: str) -> set[str]:
    """Return the words of a text, by their definition."""
    text = unicodedata.normalize("NFKD", text).casefold()
    text = unicodedata.normalize("NFKD", text)
    for letter, plain in LETTERS.items():
        text = text.replace(letter, plain)
    kept = [c for c in text if not unicodedata.category(c).startswith("M")]
    runs = itertools.groupby(kept, str.isalnum)
    return {"".join(run) for is_word, run in runs if is_word}


@given(
    st.lists(st.lists(changes, max_size=6), max_size=3),
    st.lists(names, min_size=1, max_size=4),
    st.none() | st.just("a"),
)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_every_store_finds_the_same_plants(
    store: Store, batches: list[list[Change]], queries: list[str], tag: str | None
) -> None:
    store.apply_changes([Deletion(id_) for id_ in IDS])
    for batch in batches:
        store.apply_changes(batch)
    stored = [plant for some in store.scan_plants() for plant in some]

    for query in queries:
        wanted = plain_words(query)
        expected = [
            plant.id
            for plant in stored
            if wanted
            and (tag is None or plant.tag == tag)
            and all(any(w.startswith(b) for w in plain_words(plant.name)) for b in wanted)
        ]
        assert found(store, query, tag=tag, limit=2) == expected

    assert store.list_plants(Listing(has_total=True)).total == Count(len(stored))
    assert store.check().problems == []
