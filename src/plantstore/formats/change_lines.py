"""Changes as JSON lines: one Swap on each line."""

from collections.abc import Callable
from typing import Final

import msgspec

from plantstore.changes import Swap
from plantstore.errors import ErrorCode, RequestError
from plantstore.formats.json_lines import JsonLinesParser
from plantstore.plants import (
    PLANT_BYTES_MAX,
    TOO_LARGE,
    NewPlant,
    Plant,
    check_storable,
    is_too_large,
    parse_id,
    read_json,
)

# Maximum size of a line: that of two plants, and some white space.
LINE_BYTES_MAX: Final = 2 * PLANT_BYTES_MAX + 1024

# The size of the shortest line: {"id":0,"after":null}
_LINE_BYTES_MIN: Final = 21


class _Body(msgspec.Struct, gc=False):
    """The members of a line that are read. The id stays text: a float would round it."""

    id: msgspec.Raw
    after: Plant | None
    before: Plant | msgspec.UnsetType | None = msgspec.UNSET


_decode = msgspec.json.Decoder(_Body).decode


def parse_swap(line: bytes) -> Swap:
    """Parse a line. As in files, a tag may be null: it is missing. Other members are ignored.

    Raises:
        RequestError: NOT_JSON, INVALID_PLANT, UNSTORABLE_TEXT or BODY_TOO_LARGE.

    """
    members = read_json(line, _decode)
    id_, before, after = parse_id(bytes(members.id)), members.before, members.after
    if before is None and after is None:
        message = "`before` and `after` must not both be null"
        raise RequestError(ErrorCode.INVALID_PLANT, message)
    if isinstance(before, Plant):
        check_storable(before.name, before.tag, "before.")
    if after is not None:
        check_storable(after.name, after.tag, "after.")
        if is_too_large(NewPlant(id_, after.name, after.tag)):
            raise RequestError(ErrorCode.BODY_TOO_LARGE, TOO_LARGE)
    return Swap(id_, before, after)


class ChangeLinesParser(JsonLinesParser):
    """Parses JSON lines of changes.

    Args:
        permit: raises the RequestError of a valid change that is not permitted.

    """

    _what = "change"

    def __init__(self, permit: Callable[[Swap], None]) -> None:
        super().__init__(LINE_BYTES_MAX)
        self._permit = permit

    def _parse_line(self, line: bytes) -> Swap:
        swap = parse_swap(line)
        self._permit(swap)
        return swap

    def _try_line(self, line: bytes) -> Swap | None:
        if len(line) < _LINE_BYTES_MIN:
            return None
        try:
            return self._parse_line(line)
        except RequestError:
            return None

    def _try_lines(self, text: bytes, lines: list[bytes]) -> None:  # noqa: ARG002
        return None
