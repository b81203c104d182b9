"""The field `Change-Set` of requests that change plants, and of their responses."""

from typing import Final

from plantstore.api.parameters import invalid
from plantstore.change_sets import is_name
from plantstore.changes import Change, InSet, SingleChange
from plantstore.commit.reader import GroupRead
from plantstore.errors import RequestError, quoted
from plantstore.messages import Request
from plantstore.store import PlantStore

FIELD: Final = "Change-Set"
_FIELD: Final = FIELD.lower()


def set_of(request: Request) -> str | None:
    """Return the name of the set in which a request makes its changes; None if there is none.

    Raises:
        RequestError: INVALID_PARAMETER, if it is malformed.

    """
    name = request.fields.get(_FIELD)
    return None if name is None else parse_set_name(FIELD, name)


def in_set(request: Request, change: SingleChange) -> Change:
    """Return a change in the set of a request, if it has one.

    Raises:
        RequestError: INVALID_PARAMETER, if its name is malformed.

    """
    name = set_of(request)
    return change if name is None else InSet(change, name)


async def recorded(request: Request, reader: GroupRead) -> dict[str, str]:
    """Return the field of a response to changes: the set of the request, if it is recorded."""
    name = request.fields.get(_FIELD)
    if name is None:
        return {}
    try:
        await reader.read(request, PlantStore.read_set, name, None, 0)
    except RequestError:  # the feed is off, nothing has changed, or it is not known
        return {}
    return {FIELD: name}


def parse_set_name(what: str, text: str) -> str:
    """Return the name of a set.

    Args:
        what: the parameter or the field, for the message.
        text: the name.

    Raises:
        RequestError: INVALID_PARAMETER, if it is malformed.

    """
    if not is_name(text):
        message = (
            f"`{what}` must be 16 to 64 of the characters A-Z a-z 0-9 - _ . and not {quoted(text)}"
        )
        raise invalid(message)
    return text
