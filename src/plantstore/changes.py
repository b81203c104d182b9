"""The changes of plants, their conditions, and their results.

A condition compares the entity tag of a plant (RFC 9110 §13). The entity tag depends on the name
and the tag of the plant alone. So a client can compute it from a listing, and a plant that gets its
old values again gets its old entity tag again.
"""

import hashlib
import re
from collections.abc import Iterator, Sequence
from enum import Enum
from typing import Any, Final, TypeAlias

import msgspec

from plantstore.errors import ErrorCode, IdTakenError, RequestError
from plantstore.plants import TOO_LARGE, NewPlant, Plant, PlantPatch

# Number of hexadecimal digits of the hash in an entity tag: 128 bits.
_DIGITS: Final = 32

# The field `*`. No entity tag equals it, because an entity tag has quotes.
ANY: Final = frozenset({"*"})

# An entity tag (§8.8.3), and a list of them that may have empty elements (§5.6.1). A text matches
# in one way at most, so a match takes linear time.
_ENTITY_TAG: Final = r'(?:W/)?"[!#-~\x80-\xff]*"'
_ELEMENT: Final = rf"[ \t]*(?:{_ENTITY_TAG}[ \t]*)?"
_LIST: Final = re.compile(rf"{_ELEMENT}(?:,{_ELEMENT})*")

# An entity tag of a plant. A proxy that compresses responses puts `W/` before it, or the name of
# the coding after it: "…-gzip".
_find_hashes = re.compile(rf'"([0-9a-f]{{{_DIGITS}}})(?:-+[a-z]+)?"').findall


def entity_tag(name: str, tag: str | None) -> str:
    """Return the strong entity tag of a plant, with its quotes.

    It consists of the first 32 hexadecimal digits, in lower case, of the SHA-256 of the name in
    UTF-8. If the plant has a tag, U+0000 and the tag follow the name. No name or tag contains
    U+0000.
    """
    text = name if tag is None else f"{name}\0{tag}"
    return hashed_tag(text.encode())


def hashed_tag(content: bytes) -> str:
    """Return the strong entity tag of any content, in the form that conditions know."""
    return f'"{hashlib.sha256(content).hexdigest()[:_DIGITS]}"'


class Precondition(msgspec.Struct, frozen=True, gc=False):
    """The fields If-Match and If-None-Match of a request: ANY, entity tags, or None if absent."""

    if_match: frozenset[str] | None = None
    if_none_match: frozenset[str] | None = None

    def matches(self, present: str | None) -> bool:
        """Return whether If-Match is true (§13.1.1).

        Args:
            present: the entity tag of the plant, or None if there is no plant.

        """
        return self.if_match is None or _is_in(present, self.if_match)

    def none_matches(self, present: str | None) -> bool:
        """Return whether If-None-Match is true (§13.1.2)."""
        return self.if_none_match is None or not _is_in(present, self.if_none_match)


def parse_precondition(if_match: str | None, if_none_match: str | None) -> Precondition | None:
    """Parse the two fields; None stands for an absent field.

    An empty field is an empty list (§5.6.1): If-Match is then false, and If-None-Match is true.
    Both comparisons are weak (§8.8.3.2). That is safe for If-Match too: an entity tag is a hash of
    the plant, so one that a proxy has made weak still stands for exactly this plant.

    Returns:
        The condition, or None if both fields are absent.

    Raises:
        RequestError: BAD_REQUEST, if a field is malformed.

    """
    if if_match is None and if_none_match is None:
        return None
    return Precondition(_parse("If-Match", if_match), _parse("If-None-Match", if_none_match))


def _parse(field: str, value: str | None) -> frozenset[str] | None:
    if value is None:
        return None
    if value == "*":
        return ANY
    if not _LIST.fullmatch(value):
        raise RequestError(
            ErrorCode.BAD_REQUEST, f'{field} must be * or a list of entity tags such as "0a1b"'
        )
    # Any other entity tag matches no plant, and would only take memory.
    return frozenset(f'"{digits}"' for digits in _find_hashes(value))


def _is_in(present: str | None, tags: frozenset[str]) -> bool:
    return present is not None and (tags == ANY or present in tags)


class Replacement(msgspec.Struct, frozen=True, gc=False):
    """Replace the plant that has this id."""

    id: int
    plant: Plant


class Upsert(msgspec.Struct, frozen=True, gc=False):
    """Store a plant, and replace the one that has its id, if any.

    With `keeps_tag`, the tag of a plant that is replaced stays as it is.
    """

    plant: NewPlant
    keeps_tag: bool = False

    @property
    def id(self) -> int:
        """The id of the plant."""
        return self.plant.id


class Deletion(msgspec.Struct, frozen=True, gc=False):
    """Delete the plant that has this id."""

    id: int


class Patch(msgspec.Struct, frozen=True, gc=False):
    """Change single members of the plant that has this id."""

    id: int
    patch: PlantPatch


# To create or replace a plant, replace one, change its members, or delete it.
UnconditionalChange: TypeAlias = Upsert | Replacement | Patch | Deletion


class Conditional(msgspec.Struct, frozen=True, gc=False):
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


class Swap(msgspec.Struct, frozen=True, gc=False):
    """Make the plant with this id `after`, if it is `before`; None stands for no plant.

    If `before` is UNSET, the plant may be anything. If it is `after` already, the change counts as
    made. Plants are compared by name and tag.
    """

    id: int
    before: Plant | msgspec.UnsetType | None
    after: Plant | None

    @property
    def scopes(self) -> tuple[str, ...]:
        """The scopes that a token needs for it."""
        if self.after is None:
            return ("plants:delete",)
        if self.before is None:
            return ("plants:create",)
        both = ("plants:create", "plants:update")
        return both if self.before is msgspec.UNSET else both[1:]


# A change that is not in a set: to create a plant, or one of the others.
SingleChange: TypeAlias = NewPlant | UnconditionalChange | Conditional | Swap


class InSet(msgspec.Struct, frozen=True, gc=False):
    """A change in the set with this name (`plantstore.change_sets`)."""

    change: SingleChange
    set: str

    @property
    def id(self) -> int:
        """The id of the plant."""
        return self.change.id


Change: TypeAlias = SingleChange | InSet


class AllInSet(Sequence[InSet]):
    """Changes that are all in one set. Each has its InSet only while it is looked at.

    Attributes:
        changes: the changes.
        set: the name of their set.

    """

    def __init__(self, changes: Sequence[SingleChange], name: str) -> None:
        self.changes = changes
        self.set = name

    def __len__(self) -> int:
        return len(self.changes)

    def __iter__(self) -> Iterator[InSet]:
        return (InSet(change, self.set) for change in self.changes)

    def __getitem__(self, index: Any) -> Any:  # noqa: ANN401 (as Sequence has it)
        if isinstance(index, slice):
            return AllInSet(self.changes[index], self.set)
        return InSet(self.changes[index], self.set)


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
    """The plant would be larger than PLANT_BYTES_MAX with what it keeps. Nothing changed."""

    PRECONDITION_FAILED = "precondition_failed"
    """The condition of the change is false. Nothing changed."""

    SET_CLOSED = "set_closed"
    """The set of the change is closed. Nothing changed."""


class PlantOutcome(msgspec.Struct, frozen=True, gc=False):
    """An outcome with the plant that has the id afterwards; None if there is none.

    A patch has such a result if there is a plant, and a change whose condition is false.
    """

    outcome: Outcome
    plant: NewPlant | None


Result: TypeAlias = Outcome | PlantOutcome


def error_of(outcome: Outcome, id_: int) -> RequestError | None:
    """Return the error of a change of the plant with this id; None if the change is made.

    A false condition has none here: its message depends on the plant (PlantOutcome).
    """
    match outcome:
        case Outcome.ID_TAKEN:
            return IdTakenError(id_)
        case Outcome.NO_SUCH_PLANT:
            return no_such_plant(id_)
        case Outcome.TOO_LARGE:
            return RequestError(ErrorCode.BODY_TOO_LARGE, TOO_LARGE)
        case Outcome.SET_CLOSED:
            message = "The change set is closed, because somebody undoes it"
            return RequestError(ErrorCode.SET_CLOSED, message)
        case (
            Outcome.STORED
            | Outcome.ALREADY_STORED
            | Outcome.REPLACED
            | Outcome.DELETED
            | Outcome.PRECONDITION_FAILED
        ):
            return None


def no_such_plant(id_: int) -> RequestError:
    """Return the error of a request for a plant that is not stored."""
    return RequestError(ErrorCode.NO_SUCH_PLANT, f"No plant is stored under the id {id_}")


# The outcomes of changes that a store has made.
CHANGED: Final = frozenset({Outcome.STORED, Outcome.REPLACED, Outcome.DELETED})
