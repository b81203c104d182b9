"""How a batch of changes is decided: the one place of the rules, for every store."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, TypeAlias

from plantstore.plants import NewPlant
from plantstore.store import Change, Outcome, Replacement

# Stands for a stored plant that differs from every create of the batch. No plant equals it,
# since none holds U+0000.
DIFFERENT: Final = NewPlant(0, "\0")

# By id, the bytes of the name of a stored plant and of its tag, None where it has none.
Sizes: TypeAlias = Mapping[int, tuple[int, int | None]]


def load_stored(
    changes: Sequence[Change],
    sizes: Sizes,
    load: Callable[[list[int]], dict[int, NewPlant]],
) -> dict[int, NewPlant]:
    """Return the stored plants that `decide` needs, without reading more than the batch holds.

    A small change may name a large plant. Only a create has to be compared with it, and
    only one of the same size can be equal. All others are decided by the id alone.

    Args:
        changes: the batch.
        sizes: of every plant of the store whose id the batch names.
        load: returns stored plants by id.

    """
    if not sizes:
        return {}
    equal_sizes = {
        change.id
        for change in changes
        if isinstance(change, NewPlant)
        and change.id in sizes
        and sizes[change.id] == (_bytes(change.name), _bytes(change.tag))
    }
    loaded = load(sorted(equal_sizes)) if equal_sizes else {}
    return dict.fromkeys(sizes, DIFFERENT) | loaded


def decide(
    changes: Sequence[Change], stored: dict[int, NewPlant]
) -> tuple[list[Outcome], dict[int, NewPlant | None]]:
    """Work out a batch, one change after the other, against what is stored.

    Args:
        changes: the batch, in order.
        stored: every plant of the store whose id the batch names, or DIFFERENT
            in its place; it becomes what is stored afterwards.

    Returns:
        An outcome for each change, and the difference that they make: by id,
        the plant that is to be there, or None where none is.

    """
    outcomes: list[Outcome] = []
    difference: dict[int, NewPlant | None] = {}
    for change in changes:
        if isinstance(change, NewPlant):
            there = stored.get(change.id)
            if there is None:
                stored[change.id] = difference[change.id] = change
                outcomes.append(Outcome.STORED)
            elif there == change:
                outcomes.append(Outcome.ALREADY_STORED)
            else:
                outcomes.append(Outcome.ID_TAKEN)
        elif change.id not in stored:
            outcomes.append(Outcome.NO_SUCH_PLANT)
        elif isinstance(change, Replacement):
            plant = NewPlant(change.id, change.plant.name, change.plant.tag)
            stored[change.id] = difference[change.id] = plant
            outcomes.append(Outcome.REPLACED)
        else:
            del stored[change.id]
            difference[change.id] = None
            outcomes.append(Outcome.DELETED)
    return outcomes, difference


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    return len(text) if text.isascii() else len(text.encode())
