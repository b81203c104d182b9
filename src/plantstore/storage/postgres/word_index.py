"""The index of the words of all names: the column `words`, with a GIN index.

PostgreSQL would find other words in a name than `plantstore.words`, depending on its settings.
So the column gets the words themselves.
"""

from collections.abc import Iterable, Iterator
from typing import Final

from plantstore.plants import ID_MIN
from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.fence import fenced
from plantstore.words import SEARCHED_CHARACTERS_MAX, words_of

# Number of plants that are indexed in one transaction.
PLANTS_MAX: Final = 1_000

# The value of the column for an element of `documents`.
WORDS: Final = "array_to_tsvector(string_to_array(given.words, ' '))"

_NEXT: Final = """
SELECT id, left(name, %b) FROM plants
WHERE words IS NULL AND id >= %b ORDER BY id LIMIT %b FOR UPDATE
"""
_INDEX: Final = f"""
UPDATE plants SET words = {WORDS}
FROM unnest(%b::bigint[], %b::text[]) AS given (id, words) WHERE plants.id = given.id
"""

_WORDS_FROM: Final = """
SELECT id, left(name, %b), tsvector_to_array(words) FROM plants
WHERE id >= %b ORDER BY id LIMIT %b
"""
_NAMES: Final = """
SELECT id, left(name, %b) FROM plants WHERE id = ANY(%b::bigint[]) ORDER BY id FOR UPDATE
"""


def documents(names: Iterable[str]) -> list[str]:
    """Return the words of each name, with spaces between them."""
    return [" ".join(words_of(name)) for name in names]


def index_next(connection: Connection, first_id: int) -> list[int]:
    """Index more of the plants that were stored without words, from an id on.

    Returns:
        The ids of the plants, in order; empty if there are no more.

    """
    with fenced(connection):
        values = (SEARCHED_CHARACTERS_MAX, first_id, PLANTS_MAX)
        names: dict[int, str] = dict(connection.execute(_NEXT, values, binary=True).fetchall())
        connection.execute(_INDEX, (list(names), documents(names.values())))
    return list(names)


def index_again(connection: Connection, ids: list[int]) -> None:
    """Give plants the words of their names, in a transaction that the caller has begun."""
    values = (SEARCHED_CHARACTERS_MAX, ids)
    names: dict[int, str] = dict(connection.execute(_NAMES, values, binary=True).fetchall())
    connection.execute(_INDEX, (list(names), documents(names.values())))


def with_other_words(connection: Connection) -> Iterator[tuple[int, list[int]]]:
    """Read all plants, in pages. Yield the size of a page, and those whose words are not right.

    The words of a plant are not right if they are not those of its name, or if it has none yet.
    """
    first: int | None = ID_MIN
    while first is not None:
        values = (SEARCHED_CHARACTERS_MAX, first, PLANTS_MAX + 1)
        rows = connection.execute(_WORDS_FROM, values, binary=True).fetchall()
        page = rows[:PLANTS_MAX]
        yield (
            len(page),
            [
                id_
                for id_, name, words in page
                if words is None or sorted(words_of(name)) != sorted(words)
            ],
        )
        first = rows[PLANTS_MAX][0] if len(rows) > PLANTS_MAX else None
