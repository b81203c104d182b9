"""Repairs what a store derives from its plants, in rounds. Every engine uses this module."""

from collections.abc import Callable
from typing import Final

from plantstore.errors import OperationError
from plantstore.store import Repairs

# Number of rounds after which another program must be the cause of the differences.
ROUNDS_MAX: Final = 10


def in_rounds(repair: Callable[[], Repairs]) -> Repairs:
    """Compare and repair until a comparison finds no difference; return the sum of the repairs.

    A repair may meet a change of another process, or another repair. The next round then finds
    what is left.

    Args:
        repair: compares everything once, and repairs the differences.

    Raises:
        OperationError: there are differences after each round.

    """
    plants = missing = 0
    for _ in range(ROUNDS_MAX):
        found = repair()
        if found == Repairs(0, 0):
            return Repairs(plants, missing)
        plants += found.plants
        missing += found.missing
    raise OperationError(
        "The index was repaired, but differs again: another program writes to the table of plants;"
        " stop it, and run the command again"
    )
