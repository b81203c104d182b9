"""Compares the index of words and the number of plants with the plants, and repairs both.

FTS5 lists the plants of each word, but not the words of a plant. So the plants are compared in
parts: for each part, the whole index is read, and its entries of these plants are sorted by plant.
SQLite sorts them in a temporary file if they are many. A part is read in one snapshot.

Each plant with a difference gets all its entries again, in a transaction with others: first those
are removed that the snapshot shows, then those of its name and tag are added. A plant that has
changed since the snapshot is left to the next round. Searches find the other plants all the time.

An index that FTS5 cannot read or search is emptied first, and searches then miss plants until all
have their entries again.
"""

import heapq
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager
from itertools import chain, groupby, islice, takewhile
from operator import itemgetter
from typing import Any, Final, NamedTuple, TypeAlias

import apsw
import msgspec

from plantstore.errors import BatchRefusedError
from plantstore.plants import ID_MAX, ID_MIN
from plantstore.storage.sqlite.pages import MAKE_VOCABULARY, tag_word
from plantstore.storage.sqlite.word_index import (
    PLANTS_MAX,
    Entry,
    Text,
    count_plants,
    document,
    is_found,
    pages_of_texts,
    texts_of,
    write,
)
from plantstore.store import Repairs
from plantstore.words import words_of

# Minimum number of plants in a part, and maximum number of parts. The index is read once for each.
PART_PLANTS_MIN: Final = 100_000
PARTS_MAX: Final = 32

_FIRST_OF_NEXT_PART: Final = "SELECT id FROM plants WHERE id >= ? ORDER BY id LIMIT 1 OFFSET ?"
_INDEXED: Final = """
SELECT doc, json_group_array(term) FROM temp.vocabulary WHERE doc BETWEEN ? AND ?
GROUP BY doc ORDER BY doc
"""
_EMPTY: Final = "INSERT INTO plant_words (plant_words) VALUES ('delete-all')"

# The number of rows in `totals` must be 1, but another program may have changed it.
_MISSING: Final = """
SELECT (SELECT count(*) FROM plants) - coalesce(sum(plants), 0), count(*) FROM totals
"""
_decode_words = msgspec.json.Decoder(set[str]).decode

_Opened: TypeAlias = Callable[[], AbstractContextManager[apsw.Connection]]


class Connections(NamedTuple):
    """How to read and to write.

    Attributes:
        snapshot: opens a connection that reads one snapshot.
        writing: opens a transaction that writes.

    """

    snapshot: _Opened
    writing: _Opened


class _Compared(NamedTuple):
    """A plant of a snapshot: its text if it is stored, and the words that the index has."""

    id: int
    text: Text | None
    indexed: set[str]

    @property
    def differs(self) -> bool:
        """Whether the index has other words than the name and tag."""
        if self.text is None:
            return True
        name, tag = self.text
        return self.indexed != {*words_of(name), *([] if tag is None else [tag_word(tag)])}


class _BrokenIndexError(Exception):
    """FTS5 cannot find what the index has."""


def repair(
    connections: Connections, progress: Callable[[int, int], None], part_plants_min: int
) -> Repairs:
    """Compare everything once, and repair the differences.

    Args:
        connections: to the database.
        progress: is called with the number of plants compared, and the number of all plants.
        part_plants_min: minimum number of plants in a part.

    """
    missing = _repair_total(connections)
    try:
        plants = _repair_words(connections, progress, part_plants_min)
    except (_BrokenIndexError, BatchRefusedError, apsw.CorruptError) as error:
        # If the file itself is damaged, the index is not the only part.
        result = getattr(error, "extendedresult", apsw.SQLITE_CORRUPT_VTAB)
        if result != apsw.SQLITE_CORRUPT_VTAB:
            raise
        with connections.writing() as connection:
            connection.execute(_EMPTY)
        plants = _repair_words(connections, progress, part_plants_min)
    return Repairs(plants, missing)


def _repair_words(
    connections: Connections, progress: Callable[[int, int], None], part_plants_min: int
) -> int:
    found = done = 0
    first: int | None = ID_MIN
    while first is not None:
        with connections.snapshot() as connection:
            total = max(count_plants(connection), done)
            part = max(part_plants_min, total // PARTS_MAX)
            following: int | None = connection.execute(_FIRST_OF_NEXT_PART, (first, part)).get
            last = ID_MAX if following is None else following - 1
            compared = _compared(connection, first, last)
            while plants := list(islice(compared, PLANTS_MAX)):
                wrong = [plant for plant in plants if plant.differs]
                _require_searchable(connection, plants)
                if wrong:
                    with connections.writing() as other:
                        _repair_plants(other, wrong)
                found += len(wrong)
                done += sum(plant.text is not None for plant in plants)
                progress(done, max(total, done))
        first = following
    return found


def _compared(connection: apsw.Connection, first: int, last: int) -> Iterator[_Compared]:
    """Yield all plants and all entries of the index from an id to another one."""
    connection.execute(MAKE_VOCABULARY)
    texts: Iterable[tuple[int, Any]] = (
        (id_, (name, tag))
        for id_, name, tag in takewhile(
            lambda row: row[0] <= last, chain.from_iterable(pages_of_texts(connection, first))
        )
    )
    indexed: Iterable[tuple[int, Any]] = (
        (id_, _decode_words(words)) for id_, words in connection.execute(_INDEXED, (first, last))
    )
    by_id: Callable[[tuple[int, Any]], int] = itemgetter(0)
    for id_, found in groupby(heapq.merge(texts, indexed, key=by_id), by_id):
        text, words = None, set()
        for _, each in found:
            if isinstance(each, set):
                words = each
            else:
                text = each
        yield _Compared(id_, text, words)


def _require_searchable(connection: apsw.Connection, plants: list[_Compared]) -> None:
    """Check that a search finds one of these plants by a word that the index has."""
    for plant in plants:
        if plant.text is not None and not plant.differs:
            if not is_found(connection, plant.id, *plant.text):
                raise _BrokenIndexError
            return


def _repair_plants(connection: apsw.Connection, plants: list[_Compared]) -> None:
    texts = texts_of(connection, [plant.id for plant in plants])
    entries: list[Entry] = []
    for plant in plants:
        if texts.get(plant.id) == plant.text:
            text = plant.text
            entries.append(("delete", plant.id, " ".join(plant.indexed)))
            entries.append((None, plant.id, "" if text is None else document(*text)))
    write(connection, entries)


def _repair_total(connections: Connections) -> int:
    """Correct the recorded number of plants by its error in a snapshot; return the error."""
    with connections.snapshot() as connection:
        [(missing, rows)] = connection.execute(_MISSING)
    if missing or rows != 1:
        with connections.writing() as connection:
            total = connection.execute("SELECT coalesce(sum(plants), 0) FROM totals").get
            connection.execute("DELETE FROM totals")
            connection.execute("INSERT INTO totals VALUES (?)", (total + missing,))
    return int(missing)
