"""Compares the words and the number of plants with the plants, and repairs both.

The plants are compared page by page. Those with other words get theirs again while their rows are
locked. So changes of other plants never wait, and a search finds all other plants.
"""

from collections.abc import Callable
from functools import partial
from typing import Final

from plantstore.storage.postgres.connection import Connection
from plantstore.storage.postgres.faults import retried
from plantstore.storage.postgres.features import Features
from plantstore.storage.postgres.fence import fenced
from plantstore.storage.postgres.plants import COUNT
from plantstore.storage.postgres.word_index import index_again, with_other_words
from plantstore.store import Repairs

# One statement, and so one snapshot.
_MISSING: Final = """
SELECT (SELECT count(*) FROM plants) - (SELECT coalesce(sum(plants), 0) FROM totals)::bigint
"""


def repair(
    connection: Connection, features: Features, progress: Callable[[int, int], None]
) -> Repairs:
    """Compare everything once, and repair the differences.

    Args:
        connection: without a time limit for statements.
        features: of the engine.
        progress: is called with the number of plants compared, and the number of all plants.

    """
    [(plants, missing)] = connection.execute(f"SELECT count(*), ({_MISSING}) FROM plants".encode())
    if missing:
        retried(partial(_correct_total, connection, features, missing))
    found = done = 0
    for compared, wrong in with_other_words(connection):
        if wrong:
            retried(partial(_index_again, connection, wrong))
        found += len(wrong)
        done += compared
        progress(done, max(plants, done))
    return Repairs(found, missing)


def _correct_total(connection: Connection, features: Features, missing: int) -> None:
    with fenced(connection):
        connection.execute(COUNT, (features.slot, missing))
    connection.insist_on_standbys()


def _index_again(connection: Connection, ids: list[int]) -> None:
    with fenced(connection):
        index_again(connection, ids)
    connection.insist_on_standbys()
