"""The rules that decide the outcome of each change of a batch. All stores use them."""

from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple, TypeAlias

from plantstore.changes import Change, Deletion, Outcome, Upsert
from plantstore.plants import NewPlant

# A placeholder for a stored plant that differs from every create of the batch. It equals no
# valid plant, because its name is U+0000.
DIFFERENT: Final = NewPlant(0, "\0")

# By id: the size of a stored plant's name, and of its tag (None without a tag), in bytes.
Sizes: TypeAlias = Mapping[int, tuple[int, int | None]]


class Difference(NamedTuple):
    """The changes that a batch makes in a store.

    Attributes:
        new: plants under ids that were free.
        changed: the new values of plants that were stored before.
        gone: the ids of plants that were stored before and are deleted.

    """

    new: list[NewPlant]
    changed: list[NewPlant]
    gone: list[int]


def load_stored(
    changes: Sequence[Change],
    sizes: Sizes,
    load: Callable[[list[int]], dict[int, NewPlant]],
) -> dict[int, NewPlant]:
    """Return the stored plants that `decide` needs. It reads no more data than the batch holds.

    A small change may name the id of a large plant, which need not be read in most cases.
    Replacements and deletions need only the id. Creates and upserts must be compared with the
    stored plant, but only a plant of the same size can be equal.

    Args:
        changes: the batch.
        sizes: the sizes of all stored plants whose ids are in the batch.
        load: returns stored plants by id.

    Returns:
        By id, the stored plant, or DIFFERENT for one that was not loaded.

    """
    if not sizes:
        return {}
    compared = (
        change.plant if isinstance(change, Upsert) else change
        for change in changes
        if isinstance(change, NewPlant | Upsert) and change.id in sizes
    )
    equal_sizes = {
        plant.id for plant in compared if sizes[plant.id] == (_bytes(plant.name), _bytes(plant.tag))
    }
    loaded = load(sorted(equal_sizes)) if equal_sizes else {}
    return dict.fromkeys(sizes, DIFFERENT) | loaded


def decide(
    changes: Sequence[Change], stored: dict[int, NewPlant]
) -> tuple[list[Outcome], Difference]:
    """Decide a batch, one change after the other.

    Args:
        changes: the batch, in order.
        stored: all stored plants whose ids are in the batch, or DIFFERENT in their place.
            The function updates it to the state after the batch.

    Returns:
        An outcome for each change, and what the batch changes in the store.

    """
    outcomes: list[Outcome] = []
    # By id, the new state; None if no plant is there afterwards.
    states: dict[int, NewPlant | None] = {}
    # The ids in `states` that were stored before the batch.
    stored_before: set[int] = set()
    for change in changes:
        if isinstance(change, NewPlant):
            plant = stored.get(change.id)
            if plant is None:
                stored[change.id] = states[change.id] = change
                outcomes.append(Outcome.STORED)
            elif plant == change:
                outcomes.append(Outcome.ALREADY_STORED)
            else:
                outcomes.append(Outcome.ID_TAKEN)
            continue
        before = stored.get(change.id)
        if isinstance(change, Upsert) and before in (None, change.plant):
            if before is None:
                stored[change.id] = states[change.id] = change.plant
            outcomes.append(Outcome.STORED if before is None else Outcome.ALREADY_STORED)
            continue
        if before is None:
            outcomes.append(Outcome.NO_SUCH_PLANT)
            continue
        if change.id not in states:
            stored_before.add(change.id)
        if isinstance(change, Deletion):
            del stored[change.id]
            states[change.id] = None
            outcomes.append(Outcome.DELETED)
        else:
            plant = NewPlant(change.id, change.plant.name, change.plant.tag)
            stored[change.id] = states[change.id] = plant
            outcomes.append(Outcome.REPLACED)
    return outcomes, _difference(states, stored_before)


def _difference(states: Mapping[int, NewPlant | None], stored_before: set[int]) -> Difference:
    new = [plant for id_, plant in states.items() if plant and id_ not in stored_before]
    before = [(id_, states[id_]) for id_ in sorted(stored_before)]
    changed = [plant for _, plant in before if plant]
    gone = [id_ for id_, plant in before if not plant]
    return Difference(new, changed, gone)


def _bytes(text: str | None) -> int | None:
    if text is None:
        return None
    return len(text) if text.isascii() else len(text.encode())
