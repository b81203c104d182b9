"""The records, from bytes and back. Pure: no I/O, no clock, no settings.

What a valid NewPlant is, JSON Schema 2020-12 says, the dialect of OpenAPI 3.1;
what JSON is, RFC 8259. The decision record docs/decisions/0004 says where they
leave a choice, and which one this store makes.
"""

import re
from collections.abc import Callable, Sequence
from typing import Final, TypeVar

import msgspec

from plantstore.errors import ErrorCode, RequestError

ID_MIN: Final = -(2**63)
ID_MAX: Final = 2**63 - 1

# One less than int64 has at most, so any that many digits are in bounds.
_PLAIN_DIGITS_MAX: Final = len(str(ID_MAX)) - 1

# As much of a refused id as an error message quotes.
_QUOTED_BYTES_MAX: Final = 40


class NewPlant(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A plant with its id: `id` is an int64, `tag` is None where there is none."""

    id: int
    name: str
    tag: str | None = None


class Plant(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A plant without its id, as a create answers it; never `"tag": null`."""

    name: str
    tag: str | None = None


class _PlantBody(msgspec.Struct, gc=False):
    """The members of a Plant that count."""

    name: str
    tag: str | msgspec.UnsetType = msgspec.UNSET


class _NewPlantBody(msgspec.Struct, gc=False):
    """Those of a NewPlant. The id stays text: as a float it would lose digits."""

    id: msgspec.Raw
    name: str
    tag: str | msgspec.UnsetType = msgspec.UNSET


_BodyT = TypeVar("_BodyT")

_decode_plant = msgspec.json.Decoder(_PlantBody).decode
_decode_new_plant = msgspec.json.Decoder(_NewPlantBody).decode
_encode = msgspec.json.Encoder().encode

# Reads any JSON text to its end, and makes nothing of it.
_skip = msgspec.json.Decoder(msgspec.Raw).decode


def parse_new_plant(body: bytes) -> NewPlant:
    """Read the JSON text of a NewPlant.

    Any bytes at all may come; members other than `id`, `name` and `tag` are ignored.

    Raises:
        RequestError: NOT_JSON, INVALID_PLANT or UNSTORABLE_TEXT, with a message
            that names the member, what was expected, and what came.

    """
    members = _read(body, _decode_new_plant)
    tag = None if members.tag is msgspec.UNSET else members.tag
    return make_new_plant(bytes(members.id), members.name, tag)


def parse_plant(body: bytes) -> Plant:
    """Read the JSON text of a Plant, as `parse_new_plant` does.

    Raises:
        RequestError: the same.

    """
    members = _read(body, _decode_plant)
    tag = None if members.tag is msgspec.UNSET else members.tag
    _check_storable(members.name, tag)
    return Plant(members.name, tag)


def make_new_plant(id_: bytes, name: str, tag: str | None) -> NewPlant:
    """Make a NewPlant of its parts, the id still being text; the strings hold no surrogates.

    Raises:
        RequestError: INVALID_PLANT or UNSTORABLE_TEXT.

    """
    integer = parse_int64(id_)
    if integer is None:
        raise RequestError(ErrorCode.INVALID_PLANT, f"{describe_not_int64(id_)} - at `$.id`")
    _check_storable(name, tag)
    return NewPlant(integer, name, tag)


def render_plant(plant: NewPlant | Plant) -> bytes:
    """Write a plant without its id: the JSON text of its Plant, in UTF-8."""
    return _encode(Plant(plant.name, plant.tag))


def render_stored_plant(plant: NewPlant) -> bytes:
    """Write a plant with its id, as JSON text in UTF-8; no `tag` where there is none."""
    return _encode(plant)


def render_stored_plants(plants: Sequence[NewPlant]) -> bytes:
    """Write plants with their ids, as a JSON array in UTF-8."""
    return _encode(plants)


def parse_int64(value: bytes) -> int | None:
    """Read the text of a JSON value as an int64, exactly; None if it is no such number.

    An integer is any number with a zero fractional part (JSON Schema 2020-12
    core §4.2.3, validation §6.1.1), so `1.0`, `1e3` and `120e-1` are. The value
    is worked out from its decimal digits: a float would round beyond 2**53, and
    a big integer or Decimal would let `1e999999999` fill the memory.
    """
    # Most ids are plain digits, too few to be out of bounds.
    if len(value) <= _PLAIN_DIGITS_MAX and value.isdigit() and not value.startswith(b"0"):
        return int(value)
    number = _NUMBER.fullmatch(value)
    if number is None:
        return None
    sign, whole, fraction, exponent_sign, exponent = (part or b"" for part in number.groups())
    # Each step below copies what may be a mebibyte, so there are few.
    all_digits = whole + fraction
    significant = all_digits.rstrip(b"0")
    digits = significant.lstrip(b"0")
    if not digits:
        return 0
    exponent = exponent.lstrip(b"0") or b"0"
    if len(exponent) > _EXPONENT_DIGITS_MAX:
        return None
    zeros = int(exponent_sign + exponent) - len(fraction) + len(all_digits) - len(significant)
    # The value is `digits` with `zeros` zeros behind it; int64 has 19 digits.
    if zeros < 0 or len(digits) + zeros > len(str(ID_MAX)):
        return None
    integer: int = int(sign + digits) * 10**zeros
    return integer if ID_MIN <= integer <= ID_MAX else None


def describe_not_int64(value: bytes) -> str:
    """Say what was expected where `parse_int64` returned None, and what came."""
    came = value if len(value) <= _QUOTED_BYTES_MAX else value[:_QUOTED_BYTES_MAX] + b"..."
    return f"Expected an integer from {ID_MIN} to {ID_MAX}, got {came.decode(errors='replace')}"


_NUMBER = re.compile(rb"(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([-+]?)(\d+))?")

# More digits than any exponent that a body could even out with digits of its own.
_EXPONENT_DIGITS_MAX: Final = 18


def _read(body: bytes, decode: Callable[[bytes], _BodyT]) -> _BodyT:
    try:
        # The decoder passes over the members that do not count; RFC 8259 §8.1
        # asks for UTF-8 in all of them.
        if not body.isascii():
            body.decode()
        return decode(body)
    except UnicodeDecodeError as error:
        raise RequestError(
            ErrorCode.NOT_JSON, f"The body is not UTF-8: {error.reason} (byte {error.start})"
        ) from None
    except msgspec.ValidationError as error:
        raise RequestError(ErrorCode.INVALID_PLANT, str(error)) from None
    except msgspec.DecodeError as error:
        if _holds_lone_surrogate(body):
            raise RequestError(
                ErrorCode.UNSTORABLE_TEXT, "A string holds a lone surrogate, which is no character"
            ) from None
        raise RequestError(ErrorCode.NOT_JSON, f"The body is not JSON: {error}") from None
    except RecursionError:
        raise RequestError(
            ErrorCode.NOT_JSON, "The body nests arrays or objects too deeply"
        ) from None


def _check_storable(name: str, tag: str | None) -> None:
    if "\0" in name:
        raise _holds_nul("name")
    if tag is not None and "\0" in tag:
        raise _holds_nul("tag")


def _holds_nul(member: str) -> RequestError:
    return RequestError(
        ErrorCode.UNSTORABLE_TEXT,
        f"U+0000 cannot be stored: expected a string without it - at `$.{member}`",
    )


def _holds_lone_surrogate(body: bytes) -> bool:
    """Whether this text, which the decoder refused, is JSON but for its surrogates.

    The grammar of RFC 8259 admits an escaped lone surrogate; the decoder does not. Each
    escape of one begins with a D. With a 1 in its place it is an escape of another
    character, and a text that was no JSON is still none.
    """
    try:
        _skip(body.replace(b"\\ud", b"\\u1").replace(b"\\uD", b"\\u1"))
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
