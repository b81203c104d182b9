"""The words of a text, by which plants are found. Pure: no I/O, no clock, no settings.

Case and accents make no difference: the words of "Ålesund" and of "ALESUND" are the same. All
stores index the words that this module finds, so that they find the same plants.
"""

import hashlib
import itertools
import re
import unicodedata
from collections.abc import Iterable
from typing import Final

# The beginning of a text that is searched. It limits the work for a very long name.
SEARCHED_CHARACTERS_MAX: Final = 1_000

# The beginning of a word that is compared. It limits the size of an entry of an index.
WORD_CHARACTERS_MAX: Final = 255

# The beginning of the folded words that decides the place of a text in the order. It limits the
# size of an entry of an index, and of an address that contains a place.
ORDER_CHARACTERS_MAX: Final = 64

# The words of this many characters of a text have mostly more than ORDER_CHARACTERS_MAX.
_MOSTLY_ENOUGH: Final = 2 * ORDER_CHARACTERS_MAX

# Digits of the SHA-256 of a tag that distinguish tags with one key: 128 bits.
_TAG_DIGITS: Final = 32

# Characters that are kept once they were looked up. It limits the memory for texts in many scripts.
_KNOWN_CHARACTERS_MAX: Final = 4_096

_NOT_ASCII: Final = re.compile("[^\\x00-\\x7f]+")
_NUMBER: Final = re.compile(r"\d+")
_LAST_NUMBER: Final = re.compile(r"\d+$")
_NUMBER_OF_KEY: Final = re.compile(r"1(\d\d)")
_ANY_LENGTH: Final = "[0-9][0-9]"
_LENGTHS: Final = [f"1{length:02}" for length in range(ORDER_CHARACTERS_MAX + 1)]
_SIGN_OF_HYBRID: Final = re.compile("(?<![^ ])x (?=.)")
_WITHIN_WORD: Final = re.compile(r"[^\W_]['`]+[^\W_]")

# The block Spacing Modifier Letters, such as the okina. NFKD takes apart those that mean letters.
_MODIFIER_LETTERS: Final = "\u02b0", "\u02ff"

# The form NFKD of an acute accent that stands alone.
_ACUTE_ALONE: Final = " \u0301"

# The sign `×` of a hybrid is a word, also if it touches a name.
_HYBRID: Final = " x "

_REPLACED: Final = dict(zip("łøđðħŋıŧ", "loddhnit", strict=True)) | {
    "þ": "th",
    "æ": "ae",
    "œ": "oe",
    "×": _HYBRID,
    "\u0640": "",  # the tatweel, which only makes an Arabic word longer
    **dict.fromkeys("'`\u2018\u2019\u201b\u2032\ua78c", "'"),
}


def words_of(text: str) -> list[str]:
    """Return the words of a text, each once, in order of their first occurrence.

    Each character is brought into the form NFKD, case-folded, and brought into the form NFKD again
    (Unicode §3.11, §3.13). Combining marks (General_Category M) are removed, Latin letters that
    NFKD does not take apart are replaced (Unicode CLDR, transform Latin-ASCII), and `×` is a word
    `x`. Invisible characters (General_Category Cf) are removed. The words are then the runs of
    characters for which `str.isalnum` holds. The tatweel of Arabic is not a part of them.

    An apostrophe separates words, and the words that the text has without it are words, too:
    "d'Anjou" has `d`, `anjou` and `danjou`. Quotation marks, accents that stand alone, the
    prime, and modifier letters that look like an apostrophe are one.
    """
    return _split(_fold_words(text))


def _fold_words(text: str) -> str:
    """Return the folded words of a text, with spaces between them."""
    folded = _fold_case(text)
    return _double(folded) if "'" in folded else folded


def _fold_case(text: str) -> str:
    """Return the folded words of a text, with ASCII apostrophes. Spaces are between them."""
    text = text[:SEARCHED_CHARACTERS_MAX]
    if text.isascii():  # a table for bytes is faster
        return text.encode().translate(_ASCII_IN_WORDS).decode()
    return text.translate(_IN_WORDS)


def _double(text: str) -> str:
    """Return a text with its words beside apostrophes, and those that it has without them."""
    return text.replace("'", " ") + " " + text.replace("'", "")


def _split(folded: str) -> list[str]:
    return list(dict.fromkeys(word[:WORD_CHARACTERS_MAX] for word in folded.split()))


def fold(text: str) -> str:
    """Return a text with the same words. All characters between its words are ASCII.

    The case of ASCII letters stays. If most characters are ASCII, this takes a third of the time
    of `words_of`, or less.
    """
    if not text.isascii():
        text = text.replace("×", _HYBRID)  # most names that are not ASCII have only this character
        if not text.isascii():
            text = _NOT_ASCII.sub(lambda run: run[0].translate(_IN_WORDS), text)
    if ("'" in text or "`" in text) and _WITHIN_WORD.search(text):
        return _double(text.replace("`", "'"))
    return text


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
    words = " " + _fold_words(text)
    return all(f" {beginning}" in words for beginning in beginnings)


def order_key(text: str) -> str:
    """Return the key by which names and tags are in order; it has at most 160 characters.

    Keys are compared by code points, as UTF-8 is by bytes. They are made of the folded words of a
    text, up to ORDER_CHARACTERS_MAX. Apostrophes and the sign of a hybrid are left out: `×`, or a
    word `x` before another word. Numbers are in order of their values.

    A key has only letters and digits, so that it is one word of an index. A `0` separates words. A
    number follows a `1` and its length in two digits. `00` may follow a key. No key continues with
    `00`, so what follows a key does not change the order.
    """
    words = _fold_for_order(text[:_MOSTLY_ENOUGH]).split()
    key = "0".join(words)
    if "x" in words or len(key) > ORDER_CHARACTERS_MAX or len(text) > _MOSTLY_ENOUGH:
        words = _words_for_order(text).split()
        key = "0".join(words)
    if "".join(words).isalpha():
        return key  # as of most names
    return "0".join([word if word.isalpha() else _with_lengths(word) for word in words])


def _fold_for_order(text: str) -> str:
    if not text.isascii():
        text = text.replace("×", " ")
    if text.isascii():  # a table for bytes is faster
        return text.encode().translate(_ASCII_IN_WORDS, b"'`").decode()
    return text.replace("'", "").translate(_IN_WORDS).replace("'", "")


def _words_for_order(text: str) -> str:
    """Return the words of which the key of a text is made."""
    for characters in (_MOSTLY_ENOUGH, SEARCHED_CHARACTERS_MAX):
        words = " ".join(_fold_for_order(text[:characters]).split())
        words = _SIGN_OF_HYBRID.sub("", words)
        # What follows in the text decides whether an `x` at the end is kept, and nothing before it.
        if len(words) > ORDER_CHARACTERS_MAX or len(text) <= characters:
            break
    return words[:ORDER_CHARACTERS_MAX].rstrip()


def _with_lengths(word: str) -> str:
    """Return a word with the length of each number before it."""
    if word.isdecimal():  # in a third of the time of the expression below
        return _with_length(word)
    return _NUMBER.sub(lambda number: _with_length(number[0]), word)


def _with_length(number: str) -> str:
    digits = str(int(number))
    return _LENGTHS[len(digits)] + digits


def text_of(key: str) -> str:
    """Return a text, of at most ORDER_CHARACTERS_MAX characters, that has this key."""
    text, end = "", 0
    while number := _NUMBER_OF_KEY.search(key, end):
        begin, start = number.end(), end
        end = begin + int(number[1])
        text += key[start : number.start()].replace("0", " ") + key[begin:end]
    return text + key[end:].replace("0", " ")


def order_beginning(text: str) -> str:
    """Return a pattern for the beginning of a key: of texts that begin with this one.

    It is a pattern for `re` and for `GLOB` of SQLite. If the text ends with a number, the number of
    the texts may have more digits; behind zeros alone it may have any.
    """
    key = order_key(text)
    words = _words_for_order(text)
    if words.endswith(" x"):  # before another word, it is the sign of a hybrid
        return key.removesuffix("x")
    last = _LAST_NUMBER.search(words)
    if last is None:
        return key
    digits = str(int(last[0])).lstrip("0")
    return f"{key.removesuffix(_with_length(last[0]))}1{_ANY_LENGTH}{digits}"


def begins(key: str, beginning: str) -> bool:
    """Return whether a key has a beginning of `order_beginning`."""
    return re.match(beginning, key) is not None


def tag_key(tag: str) -> str:
    """Return the key of a tag: no other tag has it. In order of these keys, tags are in order.

    A tag in lower case, or with one capital at its beginning, has a short key.
    """
    key = order_key(tag)
    text = text_of(key)
    usual = text, text.capitalize()
    if tag in usual:
        return f"{key}00{usual.index(tag)}"
    return f"{key}00{hashlib.sha256(tag.encode()).hexdigest()[:_TAG_DIGITS]}"


class _InWords(dict[int, str]):
    """What each character, by its code point, is in a word; " " if it ends a word."""

    def __missing__(self, code: int) -> str:
        folded = unicodedata.normalize("NFKD", unicodedata.normalize("NFKD", chr(code)).casefold())
        found = "".join(map(_in_word, folded.replace(_ACUTE_ALONE, "'")))
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
_ASCII_IN_WORDS: Final = "".join(map(_in_word, map(chr, range(128)))).lower().encode() + bytes(128)
