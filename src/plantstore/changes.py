"""The changes of plants, and their results."""

from enum import Enum
from typing import Final, TypeAlias

import msgspec

from plantstore.conditions import Precondition
from plantstore.plants import NewPlant, Plant, PlantPatch

# Maximum number of characters of names and tags in one transaction, unless a single plant has
# more. It limits how long other changes wait for the transaction. It also limits memory: a batch
# goes to the store as a text in which a character may take six bytes.
BATCH_CHARACTERS_MAX: Final = 4 * 1024 * 1024


class Replacement(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Replace the plant that has this id."""

    id: int
    plant: Plant


class Upsert(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Store a plant, and replace the one that has its id, if any."""

    plant: NewPlant

    @property
    def id(self) -> int:
        """The id of the plant."""
        return self.plant.id


class Deletion(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Delete the plant that has this id."""

    id: int


class Patch(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Change single members of the plant that has this id."""

    id: int
    patch: PlantPatch


# To create or replace a plant, replace one, change its members, or delete it.
UnconditionalChange: TypeAlias = Upsert | Replacement | Patch | Deletion


class Conditional(msgspec.Struct, frozen=True, gc=False, tag=True):
    """Make a change if the plant with its id fulfils a condition when the change is made.

    If a request with If-Match is repeated after a lost response, the plant may differ from the
    condition, but be what the change would make of it. The change then counts as made (RFC 9110
    §13.1.1).
    """

    change: UnconditionalChange
    precondition: Precondition

    @property
    def id(self) -> int:
        """The id of the plant."""
        return self.change.id


# To create a plant, or to make one of the other changes.
Change: TypeAlias = NewPlant | UnconditionalChange | Conditional


class Outcome(Enum):
    """The result of one change of a batch."""

    STORED = "stored"
    """The id was free. The plant is now stored."""

    ALREADY_STORED = "already_stored"
    """The same plant was stored before. Nothing changed."""

    ID_TAKEN = "id_taken"
    """A different plant has the id. It is unchanged, and the new plant is not stored."""

    REPLACED = "replaced"
    """The new values are stored."""

    DELETED = "deleted"
    """The plant is deleted, and its id is free."""

    NO_SUCH_PLANT = "no_such_plant"
    """No plant has the id. Nothing changed."""

    PRECONDITION_FAILED = "precondition_failed"
    """The condition of the change is false. Nothing changed."""


class PlantOutcome(msgspec.Struct, frozen=True, gc=False):
    """An outcome with the plant that has the id afterwards; None if there is none.

    A patch has such a result if there is a plant, and a change whose condition is false.
    """

    outcome: Outcome
    plant: NewPlant | None


Result: TypeAlias = Outcome | PlantOutcome


def characters_in(change: Change) -> int:
    """Return the number of characters in a change: of name, tag, and condition."""
    if isinstance(change, NewPlant):  # the most frequent change
        return len(change.name) + len(change.tag or "")
    match change:
        case Upsert(plant=plant) | Replacement(plant=plant):
            return len(plant.name) + len(plant.tag or "")
        case Patch(patch=patch):
            return len(patch.name or "") + len(patch.tag or "")
        case Deletion():
            return 0
        case Conditional():
            return characters_in(change.change) + change.precondition.characters()
