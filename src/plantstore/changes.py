"""The changes of plants, and their results."""

from enum import Enum
from typing import TypeAlias

import msgspec

from plantstore.conditions import Precondition
from plantstore.plants import NewPlant, Plant, PlantPatch


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

    TOO_LARGE = "too_large"
    """The patched plant would be larger than PLANT_BYTES_MAX. Nothing changed."""

    PRECONDITION_FAILED = "precondition_failed"
    """The condition of the change is false. Nothing changed."""


class PlantOutcome(msgspec.Struct, frozen=True, gc=False):
    """An outcome with the plant that has the id afterwards; None if there is none.

    A patch has such a result if there is a plant, and a change whose condition is false.
    """

    outcome: Outcome
    plant: NewPlant | None


Result: TypeAlias = Outcome | PlantOutcome
