"""The words of a text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plantstore.words import (
    ORDER_CHARACTERS_MAX,
    SEARCHED_CHARACTERS_MAX,
    WORD_CHARACTERS_MAX,
    begins,
    fold,
    has_words,
    order_beginning,
    order_key,
    tag_key,
    text_of,
    words_of,
    words_to_find,
)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("Quercus alba L.", ["quercus", "alba", "l"]),
        ("×Calammophila don-hensonii", ["x", "calammophila", "don", "hensonii"]),
        ("Rosa ×housei 2×3", ["rosa", "x", "housei", "2", "3"]),
        ("Łódź Bjørk Œuvre Þrúðvangur", ["lodz", "bjork", "oeuvre", "thrudvangur"]),
        ("ÆGIR ǽ Đặng ĦAL Ŋa \u0131ş\u0131k Ŧ", ["aegir", "ae", "dang", "hal", "na", "isik", "t"]),
        ("e\u0301tude \u00e9tude", ["etude"]),
        ("Straße STRASSE", ["strasse"]),
        ("İris", ["iris"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σισυφοσ"]),
        ("日本 桜🌸x²", ["日本", "桜", "x2"]),
        ("हिन्दी", ["हनद"]),
        ("a_b'c", ["a", "b", "c", "bc"]),
        ("É d\u2019Anjou", ["e", "d", "anjou", "danjou"]),
        ("rock'n'roll", ["rock", "n", "roll", "rocknroll"]),
        ("\u02bb\u014dhi\u02bba", ["ohi", "a", "ohia"]),
        ("po\ua78cok Ba\u02bfal", ["po", "ok", "ba", "al", "pook", "baal"]),
        ("佐々木 ローズ เร็วๆ x\u02b0", ["佐々木", "ロース", "เรวๆ", "xh"]),
        ("Cuprocy\u00adparis a\u200bb\u200cc\u200dd\u2060e\ufefff", ["cuprocyparis", "abcdef"]),
        ("\u0643\u0640\u062a\u0627\u0628", ["\u0643\u062a\u0627\u0628"]),
        (" .,-", []),
    ],
)
def test_case_accents_and_forms_of_characters_make_no_difference(
    text: str, words: list[str]
) -> None:
    assert words_of(text) == words


@given(st.text(max_size=50) | st.text("a\u00e9 '`\u00b4\u0640\u02bb\u00ad.", max_size=20))
@example("×Rosa 2×3 ÆGIR é Straße\u0345")
def test_a_folded_text_has_the_same_words(text: str) -> None:
    folded = fold(text)

    assert words_of(folded) == words_of(text)
    assert all(character.isascii() or character.isalnum() for character in folded)


def test_a_query_needs_no_word_with_which_another_of_its_words_begins() -> None:
    assert words_to_find("quercus quer ALBA alb") == ("alba", "quercus")
    assert words_to_find("- !") == ()


@pytest.mark.parametrize(
    "spellings",
    [
        ["ohia", "ohi'a", "\u02bb\u014dhi\u02bba", "\u2018ohi\u2018a", "'\u014chi\ua78ba"],
        ["obrien", "O'Brien", "O\u2019Brien", "\u00d3\u02bcBrien", "O`Brien", "O\u00b4Brien"],
        ["danjou", "d\u2032Anjou", "d`Anjou", "d\u1ffdAnjou", "d\u0384Anjou", "d\uff40Anjou"],
        ["rosacanina", "Rosa\u00adcanina", "Rosa\u200bcanina", "Rosa\u2060cani\u200dna"],
    ],
)
def test_spellings_with_and_without_apostrophes_find_each_other(spellings: list[str]) -> None:
    for name in spellings:
        for query in spellings:
            assert has_words(name, words_to_find(query)), (name, query)


def test_the_part_of_a_word_after_an_apostrophe_is_found_too() -> None:
    for query in ("anjou", "d'anjou", "d\u2019an", "danjou", "d anjou", "'Anjou'"):
        assert has_words("Beurr\u00e9 d'Anjou", words_to_find(query))


def test_each_beginning_must_begin_some_word() -> None:
    assert has_words("Quercus alba L.", ["alb", "quer"])
    assert not has_words("Quercus alba L.", ["alb", "uercus"])


def test_very_long_texts_and_words_are_cut() -> None:
    long = "x" * (WORD_CHARACTERS_MAX + 1)

    assert words_of(long) == [long[:-1]]
    assert words_of("a " * SEARCHED_CHARACTERS_MAX + "b") == ["a"]
    assert words_of("é " * SEARCHED_CHARACTERS_MAX + "b") == ["e"]


@pytest.mark.parametrize(
    "names",
    [
        ["", "...", " × "],
        ["Rosa alba", "ROSA ×alba", "Rosa x alba", "rosa-álba"],
        ["Rosa 'Peace'", "Rosa \u2018Peace\u2019", "Rosa `Peace\u00b4", "rosa peace"],
        ["Bed 7", "bed 007", "BED \u0667"],
        ["a" * 64, "a" * 64 + "b", "a" * 16_000],
    ],
)
def test_names_that_differ_only_in_what_does_not_matter_have_one_key(names: list[str]) -> None:
    assert len({order_key(name) for name in names}) == 1


def test_keys_are_in_order_of_words_and_of_the_values_of_numbers() -> None:
    names = ["", "0", "2", "10", "10 a", "10a", "100", "9" * 64, "a", "a 2", "a 10", "a b", "a2"]
    names += ["ab", "bed x", "bed y", "z", "ж", "日本"]

    assert sorted(dict.fromkeys(reversed(names)), key=order_key) == names


@given(st.text(max_size=80) | st.text("x 01\u0663\u00bd×.'aé", max_size=200))
def test_a_key_is_short_has_letters_and_digits_only_and_is_that_of_its_text(text: str) -> None:
    key = order_key(text)

    assert len(key) <= 160
    assert key == "" or key.isalnum()
    assert order_key(text_of(key)) == key
    assert len(text_of(key)) <= ORDER_CHARACTERS_MAX


def test_the_key_of_a_long_text_is_that_of_its_first_words() -> None:
    words = "x rosa alb " * 20  # an `x` ends the first 64 characters, if nothing follows it

    for before in range(40, 140):
        assert order_key("!" * before + words) == ("rosa0alb0" * 8)[:ORDER_CHARACTERS_MAX]
    assert order_key("!" * SEARCHED_CHARACTERS_MAX + words) == ""


def test_what_follows_a_key_does_not_decide_between_two_keys() -> None:
    texts = ["", "0", "a", "a 0", "a 00", "a 0 0", "a 10", "a 100", "a" * 64, "1 " * 40, "9" * 70]
    keys = sorted({order_key(text) for text in texts})

    assert sorted(f"{key}00{end}" for key in keys for end in "0z") == [
        f"{key}00{end}" for key in keys for end in "0z"
    ]


@given(st.lists(st.text("aA 01xé×.", max_size=6), unique=True))
def test_different_tags_have_different_keys_which_are_short_for_usual_tags(tags: list[str]) -> None:
    assert len({tag_key(tag) for tag in tags}) == len(tags)
    assert [tag_key(tag) for tag in ("rosa", "Rosa", "Bed 12")] == [
        "rosa000",
        "rosa001",
        "bed010212001",
    ]


@pytest.mark.parametrize(
    ("beginning", "tags", "others"),
    [
        ("", ["", "a", "1"], []),
        ("ros", ["Rosa", "× Rosa", "ros"], ["Arosa", "ro"]),
        ("Bed 1", ["bed 1", "Bed 10", "bed 1 b", "BED 19x"], ["bed 2", "bed 21", "bed"]),
        ("Bed 01", ["bed 1", "Bed 10"], ["bed 2", "bed 0"]),
        ("Bed 0", ["Bed 01", "bed 0", "Bed 012"], ["bed", "bed a"]),
        ("Bed ٣", ["Bed ٣", "bed 30"], ["bed 2", "bed"]),
        ("rosa ×", ["rosa alba"], ["ros"]),
        ("Rosa x ", ["rosa x alba", "rosa alba", "rosa x", "rosa"], ["ros", "rosaceae"]),
        ("Bed 1 x", ["bed 1 x a", "bed 1"], ["bed 10", "bed 1b", "bed 2"]),
        ("x", ["xanthium"], ["rosa"]),
        ("x" * 100, ["x" * 64, "x" * 200], ["x" * 63]),
    ],
)
def test_tags_are_found_by_their_beginnings(
    beginning: str, tags: list[str], others: list[str]
) -> None:
    pattern = order_beginning(beginning)

    assert [tag for tag in tags + others if begins(tag_key(tag), pattern)] == tags
