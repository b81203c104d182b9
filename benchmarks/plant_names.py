"""Generated names of plants, and the beginnings of names that a person types to find them.

A name has a genus, an epithet and mostly an author, as in "Quercus alba L.". A few of them are
frequent and most are rare: the frequency is about inverse to the rank, as it is in real
catalogues. The same seed gives the same names.
"""

import csv
import random
from collections.abc import Iterable, Iterator
from itertools import accumulate
from pathlib import Path
from urllib.parse import quote

from plantstore.plants import NewPlant

GENERA, EPITHETS, AUTHORS, TAGS = 20_000, 20_000, 3_000, 500
SEED = 17

# Number of plants that are generated at once.
BLOCK = 10_000

# Ranks are shifted by this number. So the most frequent genus has about 1 % of the plants.
_SHIFT = 10

# The first ones are the most frequent.
_ONSETS = "c p a s l m h t e b g d r ph o ch i tr n pl v st f sp cr th gl br u gr sch x z q eu"
_MIDDLES = "r l n t c m s p d ll nth st nd rm ct ph b ss v g mn pt x lc"
_VOWELS = "a e i o u y ae ia io eu"
_GENUS_ENDS = "ia a um us is on ella anthus phyllum carpus opsis dendron"
_EPITHET_ENDS = "a um us ensis ii iana ata ifolia oides osa folia ina flora é"


def plants(count: int, seed: int = SEED) -> Iterator[NewPlant]:
    """Yield plants with ids from 1 on."""
    choose = random.Random(seed)
    genera, epithets, authors = _vocabulary()
    for first_id in range(1, count + 1, BLOCK):
        in_block = min(BLOCK, count + 1 - first_id)
        parts = [_some(choose, words, in_block) for words in (genera, epithets, authors)]
        for id_, (genus, epithet, author) in enumerate(zip(*parts, strict=True), first_id):
            yield NewPlant(id_, f"{genus} {epithet} {author}", f"Family {hash_of(genus)}")


def hash_of(genus: str) -> int:
    """Return the number of the tag of a genus. The `hash` of Python differs in each process."""
    return sum(map(ord, genus)) * len(genus) % TAGS


def two_words(count: int, seed: int = SEED + 1) -> Iterator[str]:
    """Yield queries with the first three to six letters of the genus and epithet of a plant.

    Every tenth one has a genus and an epithet of different plants, and seldom finds anything.
    """
    choose = random.Random(seed)
    names = [plant.name.split() for plant in plants(count, seed)]
    for number, (genus, epithet, *_) in enumerate(names):
        other = names[number - 1][1][::-1] if number % 10 == 0 else epithet
        yield f"{genus[: choose.randint(3, 6)].lower()} {other[: choose.randint(3, 6)].lower()}"


def one_word(count: int, letters: int, seed: int = SEED + 2) -> Iterator[str]:
    """Yield queries with the first letters of the genus or epithet of a plant."""
    for number, plant in enumerate(plants(count, seed)):
        yield plant.name.split()[number % 2][:letters].lower()


def nothing(count: int) -> Iterator[str]:
    """Yield queries that no generated plant has."""
    yield from (f"wwj{number} abies" for number in range(count))


def write_csv(file: Path, count: int) -> None:
    """Write plants as a CSV file."""
    with file.open("w", encoding="utf-8", newline="") as lines:
        rows = csv.writer(lines, lineterminator="\n")
        rows.writerow(["id", "name", "tag"])
        rows.writerows((plant.id, plant.name, plant.tag) for plant in plants(count))


def write_targets(file: Path, form: str, queries: Iterable[str]) -> Path:
    """Write the targets of requests, each with a query in place of %s."""
    file.write_text("".join(f"{form % quote(query)}\n" for query in queries), encoding="ascii")
    return file


def _vocabulary() -> tuple[list[str], list[str], list[str]]:
    choose = random.Random(SEED)
    genera = _made(choose, GENERA, _GENUS_ENDS.split())
    epithets = _made(choose, EPITHETS, _EPITHET_ENDS.split())
    authors = [f"{word[:5]}.".title() for word in _made(choose, AUTHORS, [""])]
    return [word.title() for word in genera], epithets, ["L.", "Mill.", *authors]


def _made(choose: random.Random, count: int, ends: list[str]) -> list[str]:
    """Return different words of Latin syllables."""
    onsets, vowels, middles = _ONSETS.split(), _VOWELS.split(), _MIDDLES.split()
    words: dict[str, None] = {}
    while len(words) < count:
        syllables = choose.choices((1, 2, 3), (2, 5, 2))[0]
        middle = "".join(
            _some(choose, vowels, 1)[0] + _some(choose, middles, 1)[0] for _ in range(syllables)
        )
        words[_some(choose, onsets, 1)[0] + middle + choose.choice(ends)] = None
    return choose.sample(list(words), count)


_weights: dict[int, list[float]] = {}


def _some(choose: random.Random, words: list[str], count: int) -> list[str]:
    """Return some of the words, the first ones most frequently."""
    number = len(words)
    if number not in _weights:
        _weights[number] = list(accumulate(1 / (rank + _SHIFT) for rank in range(number)))
    return choose.choices(words, cum_weights=_weights[number], k=count)
