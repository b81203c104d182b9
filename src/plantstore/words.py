"""The words of a text, by which plants are found. Pure: no I/O, no clock, no settings.

Case and accents make no difference: the words of "Ålesund" and of "ALESUND" are the same. All
stores index the words that this module finds, so that they find the same plants
(docs/decisions/0007).
"""

import itertools
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

# The beginning of a text that is searched. It limits the work for a very long name.
SEARCHED_CHARACTERS_MAX: Final = 1_000

# The beginning of a word that is compared. It limits the size of an entry of an index.
WORD_CHARACTERS_MAX: Final = 255

# Characters that are kept once they were looked up. It limits the memory for texts in many scripts.
_KNOWN_CHARACTERS_MAX: Final = 4_096

_ASCII_WORD: Final = re.compile("[0-9a-z]+")
_NOT_ASCII: Final = re.compile("[^\\x00-\\x7f]+")
_WITHIN_WORD: Final = re.compile(r"[^\W_]'+[^\W_]")

# The block Spacing Modifier Letters, such as the okina. NFKD takes apart those that mean letters.
_MODIFIER_LETTERS: Final = "\u02b0", "\u02ff"

# The sign `×` of a hybrid is a word, also if it touches a name.
_HYBRID: Final = " x "

_REPLACED: Final = dict(zip("łøđðħŋıŧ", "loddhnit", strict=True)) | {
    "þ": "th",
    "æ": "ae",
    "œ": "oe",
    "×": _HYBRID,
    **dict.fromkeys("'\u2018\u2019\u201b\ua78c", "'"),
}


def words_of(text: str) -> list[str]:
    """Return the words of a text, each once, in order of their first occurrence.

    Each character is brought into the form NFKD, case-folded, and brought into the form NFKD again
    (Unicode §3.11, §3.13). Combining marks (General_Category M) are removed, Latin letters that
    NFKD does not take apart are replaced (Unicode CLDR, transform Latin-ASCII), and `×` is a word
    `x`. Invisible characters (General_Category Cf) are removed. The words are then the runs of
    characters for which `str.isalnum` holds.

    An apostrophe separates words, and the words that the text has without it are words, too:
    "d'Anjou" has `d`, `anjou` and `danjou`. Quotation marks and modifier letters that look like an
    apostrophe are one.
    """
    folded = _fold_case(text)
    return _split(_double(folded) if "'" in folded else folded)


def _fold_case(text: str) -> str:
    """Return a text in which words are folded, and apostrophes are ASCII."""
    text = text[:SEARCHED_CHARACTERS_MAX]
    return text.lower() if text.isascii() else text.translate(_IN_WORDS)


def _double(text: str) -> str:
    """Return a text with its words beside apostrophes, and those that it has without them."""
    return text.replace("'", " ") + " " + text.replace("'", "")


def _split(folded: str) -> list[str]:
    words = _ASCII_WORD.findall(folded) if folded.isascii() else folded.split()
    return list(dict.fromkeys(word[:WORD_CHARACTERS_MAX] for word in words))


def fold(text: str) -> str:
    """Return a text with the same words. All characters between its words are ASCII.

    The case of ASCII letters stays. If most characters are ASCII, this takes a third of the time
    of `words_of`, or less.
    """
    if not text.isascii():
        text = text.replace("×", _HYBRID)  # most names that are not ASCII have only this character
        if not text.isascii():
            text = _NOT_ASCII.sub(_fold_run, text)
    return _double(text) if "'" in text and _WITHIN_WORD.search(text) else text


def _fold_run(run: re.Match[str]) -> str:
    return run[0].translate(_IN_WORDS)


def words_to_find(query: str) -> tuple[str, ...]:
    """Return the words of a query that a plant must have, in order of the alphabet.

    Apostrophes are left out, because names have the words without them. A word with which another
    word of the query begins is left out, too: each plant that has the longer word has the shorter
    one.
    """
    words = sorted(_split(_fold_case(query).replace("'", "")))
    neighbours = itertools.pairwise([*words, ""])
    return tuple(word for word, following in neighbours if not following.startswith(word))


def has_words(text: str, beginnings: Iterable[str]) -> bool:
    """Return whether each of the beginnings is the beginning of a word of the text."""
    words = words_of(text)
    return all(any(word.startswith(beginning) for word in words) for beginning in beginnings)


class _InWords(dict[int, str]):
    """What each character, by its code point, is in a word; " " if it ends a word."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
        found = "".join(map(_in_word, folded))
        if len(self) >= _KNOWN_CHARACTERS_MAX:
            self.clear()
        self[code] = found
        return found


def _in_word(character: str) -> str:
    if character in _REPLACED:
        return _REPLACED[character]
    if _MODIFIER_LETTERS[0] <= character <= _MODIFIER_LETTERS[1]:
        return "'"
    if character.isalnum():
        return character
    category = unicodedata.category(character)
    return "" if category == "Cf" or category.startswith("M") else " "


_IN_WORDS: Final = _InWords()
