"""Parse and render plants as JSON. Pure: no I/O, no clock, no settings.

JSON Schema 2020-12, the dialect of OpenAPI 3.1, defines a valid NewPlant, and RFC 8259
defines JSON. docs/internals/decisions/0001 records our choices where these standards allow several.
"""

import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final, TypeVar

import msgspec

from plantstore.errors import ErrorCode, RequestError
from plantstore.integers import INT64_MAX, INT64_MIN, describe_not_integer, parse_int64

ID_MIN: Final = INT64_MIN
ID_MAX: Final = INT64_MAX

# Maximum size of a plant as JSON: of the body of a request, of a row of a file, and of each stored
# plant. The service multiplies it by its other limits to bound its memory.
PLANT_BYTES_MAX: Final = 16 * 1024

# A character takes at most six bytes of JSON, so a plant with fewer of them is not too large.
_UNMEASURED_CHARACTERS_MAX: Final = PLANT_BYTES_MAX // 8


class NewPlant(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A plant with its id, an int64. `tag` is None if the plant has no tag."""

    id: Annotated[int, msgspec.Meta(ge=ID_MIN, le=ID_MAX)]
    name: str
    tag: str | None = None


class Plant(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A plant without its id. JSON leaves `tag` out if the plant has none."""

    name: str
    tag: str | None = None


class PlantPatch(msgspec.Struct, frozen=True, gc=False):
    """New values of members of a plant; UNSET for those that stay. The tag None removes the tag."""

    name: str | msgspec.UnsetType = msgspec.UNSET
    tag: str | msgspec.UnsetType | None = msgspec.UNSET


class _PlantBody(msgspec.Struct, gc=False):
    """The members of a Plant that are read."""

    name: str
    tag: str | msgspec.UnsetType = msgspec.UNSET


class _NewPlantBody(msgspec.Struct, gc=False):
    """The members of a NewPlant that are read. The id stays text: a float would round it."""

    id: msgspec.Raw
    name: str
    tag: str | msgspec.UnsetType = msgspec.UNSET


class _RowBody(msgspec.Struct, gc=False):
    """The members of a row that are read. Many programs write null for a tag that is missing."""

    id: msgspec.Raw
    name: str
    tag: str | None = None


_BodyT = TypeVar("_BodyT")

_decode_plant = msgspec.json.Decoder(_PlantBody).decode
_decode_new_plant = msgspec.json.Decoder(_NewPlantBody).decode
_decode_row = msgspec.json.Decoder(_RowBody).decode
_decode_patch = msgspec.json.Decoder(PlantPatch).decode
# It refuses ids like `1.0`.
_decode_fast = msgspec.json.Decoder(NewPlant).decode
_encode = msgspec.json.Encoder().encode

# The message for a plant that is too large, if its body is not.
TOO_LARGE: Final = f"The plant must be no larger than {PLANT_BYTES_MAX} bytes as JSON"

# The size of the shortest NewPlant: {"id":0,"name":""}
_NEW_PLANT_BYTES_MIN: Final = 18

# U+0000, and surrogates, which stand for bytes that are not UTF-8.
_UNSTORABLE: Final = re.compile("[\0\ud800-\udfff]")

# Checks the syntax of a JSON text without building a value.
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def parse_new_plant(body: bytes) -> NewPlant:
    """Parse the JSON text of a NewPlant, from any bytes.

    Members other than `id`, `name` and `tag` are ignored.

    Raises:
        RequestError: NOT_JSON, INVALID_PLANT or UNSTORABLE_TEXT. The message names the
            member, what it must be, and what was given.

    """
    # The decoder of usual rows accepts null as a tag.
    usual = None if b"null" in body else parse_rows_fast(body, [body])
    if usual is not None:
        return usual[0]
    members = read_json(body, _decode_new_plant)
    tag = None if members.tag is msgspec.UNSET else members.tag
    return make_new_plant(bytes(members.id), members.name, tag)


def parse_row(line: bytes) -> NewPlant:
    """Parse a line of a file as `parse_new_plant` does. But a tag may be null: it is missing.

    Raises:
        RequestError: the same.

    """
    members = read_json(line, _decode_row)
    return make_new_plant(bytes(members.id), members.name, members.tag)


def try_parse_row(line: bytes) -> NewPlant | None:
    """Return the plant that `parse_row` returns, or None where it raises an error.

    For a line that is not valid, it takes a tenth of the time of `parse_row`.
    """
    if len(line) < _NEW_PLANT_BYTES_MIN:
        return None
    usual = parse_rows_fast(line, [line])
    if usual is not None:
        return usual[0]
    try:
        _check_utf8(line)
        members = _decode_row(line)
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None
    return try_make_plant(bytes(members.id), members.name, members.tag)


def parse_rows_fast(text: bytes, lines: Iterable[bytes]) -> list[NewPlant] | None:
    """Parse lines of the usual form, in a third of the time of `parse_row`.

    Args:
        text: all lines together.
        lines: the JSON text of each NewPlant.

    Returns:
        The plants. None if one of them is not valid, or has an unusual form: the caller then
        parses each by itself.

    """
    if b"\\u0000" in text:
        return None
    try:
        _check_utf8(text)
        return [*map(_decode_fast, lines)]
    except (UnicodeDecodeError, msgspec.DecodeError, RecursionError):
        return None


def parse_plant(body: bytes) -> Plant:
    """Parse the JSON text of a Plant, as `parse_new_plant` does.

    Raises:
        RequestError: the same.

    """
    members = read_json(body, _decode_plant)
    tag = None if members.tag is msgspec.UNSET else members.tag
    check_storable(members.name, tag)
    return Plant(members.name, tag)


def parse_patch(body: bytes) -> PlantPatch:
    """Parse a JSON merge patch of a plant (RFC 7396), as `parse_new_plant` does.

    A name cannot be removed, so null is not allowed. A patch that is not an object would replace
    the whole plant, and is not allowed either.

    Raises:
        RequestError: the same.

    """
    patch = read_json(body, _decode_patch)
    check_storable(patch.name or "", patch.tag or None)
    return patch


def make_new_plant(id_: bytes, name: str, tag: str | None) -> NewPlant:
    """Make a NewPlant from its parts. The id is still text; the strings have no surrogates.

    Raises:
        RequestError: INVALID_PLANT, UNSTORABLE_TEXT or BODY_TOO_LARGE.

    """
    integer = parse_id(id_)
    check_storable(name, tag)
    plant = NewPlant(integer, name, tag)
    check_size(plant)
    return plant


def parse_id(id_: bytes) -> int:
    """Parse the text of a member `id`.

    Raises:
        RequestError: INVALID_PLANT.

    """
    integer = parse_int64(id_)
    if integer is None:
        raise RequestError(ErrorCode.INVALID_PLANT, describe_not_integer("id", id_))
    return integer


def try_make_plant(id_: bytes, name: str, tag: str | None) -> NewPlant | None:
    """Return the plant that `make_new_plant` returns, or None if the parts are not valid.

    The strings may have surrogates, which are not valid.
    """
    integer = parse_int64(id_)
    if integer is None or _UNSTORABLE.search(name) or (tag and _UNSTORABLE.search(tag)):
        return None
    plant = NewPlant(integer, name, tag)
    return None if is_too_large(plant) else plant


def is_too_large(plant: NewPlant) -> bool:
    """Return whether a plant has more than PLANT_BYTES_MAX bytes as JSON."""
    characters = len(plant.name) + len(plant.tag or "")
    return characters > _UNMEASURED_CHARACTERS_MAX and len(_encode(plant)) > PLANT_BYTES_MAX


def check_size(plant: NewPlant) -> None:
    """Check that a plant is not too large.

    Raises:
        RequestError: BODY_TOO_LARGE.

    """
    if is_too_large(plant):
        raise RequestError(ErrorCode.BODY_TOO_LARGE, TOO_LARGE)


def render_plant(plant: NewPlant | Plant) -> bytes:
    """Render a plant without its id, as JSON text in UTF-8."""
    return _encode(Plant(plant.name, plant.tag))


def render_stored_plant(plant: NewPlant) -> bytes:
    """Render a plant with its id, as JSON text in UTF-8."""
    return _encode(plant)


def render_stored_plants(plants: Sequence[NewPlant]) -> bytes:
    """Render plants with their ids, as a JSON array in UTF-8."""
    return _encode(plants)


# The messages of msgspec about a member, and the English names of its types.
_MISSING: Final = re.compile(r"Object missing required field `(\w+)`(?: - at `\$\.(\w+)`)?")
_WRONG_TYPE: Final = re.compile(r"Expected `([\w |]+)`, got `(\w+)`(?: - at `\$\.([\w.]+)`)?")
_TYPES: Final = {
    "str": "a string",
    "str | null": "a string or null",
    "int": "a number",
    "float": "a number",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "object | null": "an object or null",
}


def read_json(body: bytes, decode: Callable[[bytes], _BodyT]) -> _BodyT:
    """Return the members of a JSON object, from any bytes.

    Args:
        body: the JSON text.
        decode: is that of a msgspec decoder.

    Raises:
        RequestError: NOT_JSON, INVALID_PLANT or UNSTORABLE_TEXT.

    """
    try:
        _check_utf8(body)
        return decode(body)
    except UnicodeDecodeError as error:
        raise RequestError(
            ErrorCode.NOT_JSON, f"The text is not UTF-8: {error.reason} (byte {error.start})"
        ) from None
    except msgspec.ValidationError as error:
        raise RequestError(ErrorCode.INVALID_PLANT, _describe_invalid(str(error))) from None
    except msgspec.DecodeError as error:
        if _holds_lone_surrogate(body):
            raise RequestError(
                ErrorCode.UNSTORABLE_TEXT,
                "A string contains a lone surrogate, which is not a character",
            ) from None
        reason = str(error).removeprefix("JSON is malformed: ")
        raise RequestError(ErrorCode.NOT_JSON, f"The text is not JSON: {reason}") from None
    except RecursionError:
        raise RequestError(ErrorCode.NOT_JSON, "The JSON is nested too deeply") from None


def _check_utf8(text: bytes) -> None:
    # RFC 8259 §8.1 requires UTF-8. The decoder does not check it in members that it skips.
    if not text.isascii():
        text.decode()


def _describe_invalid(said: str) -> str:
    """Translate msgspec's message about JSON that is not a plant."""
    if missing := _MISSING.fullmatch(said):
        return f"`{'.'.join(filter(None, missing.group(2, 1)))}` is missing"
    if wrong := _WRONG_TYPE.fullmatch(said):
        required, given = (_TYPES.get(name, name) for name in wrong.groups()[:2])
        advice = "; leave it out" if (wrong[3], given) == ("tag", "null") else ""
        member = f"`{wrong[3]}`" if wrong[3] else "The JSON"
        return f"{member} must be {required}, got {given}{advice}"
    return said


def check_storable(name: str, tag: str | None, prefix: str = "") -> None:
    """Check that a plant can be stored. The names of its members have a prefix in the message.

    Raises:
        RequestError: UNSTORABLE_TEXT.

    """
    for member, text in (("name", name), ("tag", tag)):
        if text and "\0" in text:
            message = f"`{prefix}{member}` must not contain U+0000, which cannot be stored"
            raise RequestError(ErrorCode.UNSTORABLE_TEXT, message)


def _holds_lone_surrogate(body: bytes) -> bool:
    """Return whether a text that the decoder refused is JSON apart from lone surrogates.

    The grammar of RFC 8259 allows an escaped lone surrogate; the decoder does not. The digits of
    each such escape begin with D. If 1 replaces the D, the escape means another character, and a
    text that was not JSON is still not JSON.
    """
    if b"\\u" not in body:
        return False
    try:
        _skip(body.replace(b"\\ud", b"\\u1").replace(b"\\uD", b"\\u1"))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
