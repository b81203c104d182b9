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
        ("a_b'c", ["a", "b", "c"]),
        (" .,-", []),
        ("", []),
    ],
)
def test_case_accents_and_forms_of_characters_make_no_difference(
    text: str, words: list[str]
) -> None:
    assert words_of(text) == words


@given(st.text(max_size=50))
@example("×Rosa 2×3 ÆGIR é Straße\u0345")
def test_a_folded_text_has_the_same_words_and_otherwise_only_ascii(text: str) -> None:
    folded = fold(text)

    assert words_of(folded) == words_of(text)
    assert all(character.isascii() or character.isalnum() for character in folded)


def test_a_query_needs_no_word_with_which_another_of_its_words_begins() -> None:
    assert words_to_find("quercus quer ALBA alb") == ("alba", "quercus")
    assert words_to_find("- !") == ()


def test_each_beginning_must_begin_some_word() -> None:
    assert has_words("Quercus alba L.", ["alb", "quer"])
    assert not has_words("Quercus alba L.", ["alb", "uercus"])


def test_very_long_texts_and_words_are_cut() -> None:
    long = "x" * (WORD_CHARACTERS_MAX + 1)

    assert words_of(long) == [long[:-1]]
    assert words_of("a " * SEARCHED_CHARACTERS_MAX + "b") == ["a"]
    assert words_of("é " * SEARCHED_CHARACTERS_MAX + "b") == ["e"]
