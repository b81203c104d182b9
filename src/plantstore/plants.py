"""The records, from bytes and back. Pure: no I/O, no clock, no settings.

What a valid NewPlant is, JSON Schema 2020-12 says, the dialect of OpenAPI 3.1;
what JSON is, RFC 8259. The decision record docs/decisions/0004 says where they
leave a choice, and which one this store makes.
"""

import json
import re
from typing import Final

import msgspec

from plantstore.errors import ErrorCode, RequestError

ID_MIN: Final = -(2**63)
ID_MAX: Final = 2**63 - 1

# One less than int64 has at most, so any that many digits are in bounds.
_PLAIN_DIGITS_MAX: Final = len(str(ID_MAX)) - 1

# As much of a refused id as an error message quotes.
_QUOTED_BYTES_MAX: Final = 40


class NewPlant(msgspec.Struct, frozen=True, gc=False):
    """A plant to be stored: `id` is an int64, `tag` is None where there is none."""

    id: int
    name: str
    tag: str | None = None


class Plant(msgspec.Struct, frozen=True, gc=False, omit_defaults=True):
    """A plant as the service answers it: without its id, and never `"tag": null`."""

    name: str
    tag: str | None = None


class _Body(msgspec.Struct, gc=False):
    """The members that count. The id stays text: as a float it would lose digits."""

    id: msgspec.Raw
    name: str
    tag: str | msgspec.UnsetType = msgspec.UNSET


_decode = msgspec.json.Decoder(_Body).decode
_encode = msgspec.json.Encoder().encode


def parse_new_plant(body: bytes) -> NewPlant:
    """Read the JSON text of a NewPlant.

    Any bytes at all may come; members other than `id`, `name` and `tag` are ignored.

    Raises:
        RequestError: NOT_JSON, INVALID_PLANT or UNSTORABLE_TEXT, with a message
            that names the member, what was expected, and what came.

    """
    try:
        # The decoder passes over the members that do not count; RFC 8259 §8.1
        # asks for UTF-8 in all of them.
        if not body.isascii():
            body.decode()
        members = _decode(body)
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
    number = bytes(members.id)
    # Most ids are plain digits, too few to be out of bounds.
    is_plain = len(number) <= _PLAIN_DIGITS_MAX and number.isdigit()
    id_ = int(number) if is_plain else _parse_int64(number)
    tag = None if members.tag is msgspec.UNSET else members.tag
    if "\0" in members.name:
        raise _holds_nul("name")
    if tag is not None and "\0" in tag:
        raise _holds_nul("tag")
    return NewPlant(id_, members.name, tag)


def render_plant(plant: NewPlant) -> bytes:
    """Write the answer to a stored plant: the JSON text of its Plant, in UTF-8."""
    return _encode(Plant(plant.name, plant.tag))


_NUMBER = re.compile(rb"(-?)(\d+)(?:\.(\d+))?(?:[eE]([-+]?)0*(\d*))?")

# More digits than any exponent that a body could even out with digits of its own.
_EXPONENT_DIGITS_MAX: Final = 18


def _parse_int64(value: bytes) -> int:
    """Read a JSON value as an int64, exactly.

    An integer is any number with a zero fractional part (JSON Schema 2020-12
    core §4.2.3, validation §6.1.1), so `1.0`, `1e3` and `120e-1` are. The value
    is worked out from its decimal digits: a float would round beyond 2**53, and
    a big integer or Decimal would let `1e999999999` fill the memory.
    """
    number = _NUMBER.fullmatch(value)
    if number is None:
        raise _not_int64(value)
    sign, whole, fraction, exponent_sign, exponent = (part or b"" for part in number.groups())
    digits = (whole + fraction).strip(b"0")
    if not digits:
        return 0
    if len(exponent) > _EXPONENT_DIGITS_MAX:
        raise _not_int64(value)
    zeros = int(exponent_sign + (exponent or b"0")) - len(fraction)
    zeros += len(whole + fraction) - len((whole + fraction).rstrip(b"0"))
    # The value is `digits` with `zeros` zeros behind it; int64 has 19 digits.
    if zeros < 0 or len(digits) + zeros > len(str(ID_MAX)):
        raise _not_int64(value)
    integer: int = int(sign + digits) * 10**zeros
    if not ID_MIN <= integer <= ID_MAX:
        raise _not_int64(value)
    return integer


def _holds_nul(member: str) -> RequestError:
    return RequestError(
        ErrorCode.UNSTORABLE_TEXT,
        f"U+0000 cannot be stored: expected a string without it - at `$.{member}`",
    )


def _not_int64(value: bytes) -> RequestError:
    came = value if len(value) <= _QUOTED_BYTES_MAX else value[:_QUOTED_BYTES_MAX] + b"..."
    return RequestError(
        ErrorCode.INVALID_PLANT,
        f"Expected an integer from {ID_MIN} to {ID_MAX}, "
        f"got {came.decode(errors='replace')} - at `$.id`",
    )


def _holds_lone_surrogate(body: bytes) -> bool:
    """Whether this text, which the decoder refused, is JSON but for its surrogates.

    The grammar of RFC 8259 admits an escaped lone surrogate, and the standard
    library lets it pass; that is all in which the two differ.
    """
    try:
        json.loads(body.decode(), parse_int=str, parse_float=str, parse_constant=_refuse_constant)
    except (ValueError, RecursionError):
        return False
    return True


def _refuse_constant(name: str) -> None:
    raise ValueError(name)  # NaN and Infinity, which are no JSON
