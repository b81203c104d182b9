"""The words of a text."""

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from plantstore.words import (
    SEARCHED_CHARACTERS_MAX,
    WORD_CHARACTERS_MAX,
    fold,
    has_words,
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
        ("Ålesund", ["alesund"]),
        ("e\u0301tude \u00e9tude", ["etude"]),
        ("Straße STRASSE", ["strasse"]),
        ("ﬁcus", ["ficus"]),
        ("İris", ["iris"]),
        ("ΣΊΣΥΦΟΣ σίσυφος", ["σισυφοσ"]),
        ("日本 桜🌸x²", ["日本", "桜", "x2"]),
        ("हिन्दी", ["हनद"]),
        ("a_b'c", ["a", "b", "c", "bc"]),
        ("d'Anjou", ["d", "anjou", "danjou"]),
        ("É d\u2019Anjou", ["e", "d", "anjou", "danjou"]),
        ("Rosa 'Peace'", ["rosa", "peace"]),
        ("rock'n'roll", ["rock", "n", "roll", "rocknroll"]),
        ("\u02bb\u014dhi\u02bba", ["ohi", "a", "ohia"]),
        ("po\ua78cok Ba\u02bfal", ["po", "ok", "ba", "al", "pook", "baal"]),
        (
            "\u043c\u02bc\u044f\u0442\u0430",
            ["\u043c", "\u044f\u0442\u0430", "\u043c\u044f\u0442\u0430"],
        ),
        ("佐々木 ローズ เร็วๆ x\u02b0", ["佐々木", "ロース", "เรวๆ", "xh"]),
        ("Cuprocy\u00adparis a\u200bb\u200cc\u200dd\u2060e\ufefff", ["cuprocyparis", "abcdef"]),
        (" .,-", []),
        ("", []),
    ],
)
def test_case_accents_and_forms_of_characters_make_no_difference(
    text: str, words: list[str]
) -> None:
    assert words_of(text) == words


@given(st.text(max_size=50) | st.text("a\u00e9 '\u02bb\u00ad.", max_size=20))
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
        ["obrien", "O'Brien", "O\u2019Brien", "\u00d3\u02bcBrien"],
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
