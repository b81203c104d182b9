"""Integers in JSON texts and in parameters, parsed exactly."""

import re
from typing import Final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1

# Any number of this many digits fits into an int64.
_PLAIN_DIGITS_MAX: Final = len(str(INT64_MAX)) - 1

# How much of an invalid integer an error message quotes.
_QUOTED_BYTES_MAX: Final = 40


def parse_int64(value: bytes) -> int | None:
    """Parse the text of a JSON value as an exact int64; return None if it is not one.

    An integer is any number with a zero fractional part (JSON Schema 2020-12
    core §4.2.3, validation §6.1.1), so `1.0`, `1e3` and `120e-1` are integers. The value
    is computed from the decimal digits: a float would round beyond 2**53, and
    a big integer or Decimal would let `1e999999999` fill the memory.
    """
    # The fast path: most ids are plain digits, too few to be out of bounds.
    if len(value) <= _PLAIN_DIGITS_MAX and value.isdigit() and not value.startswith(b"0"):
        return int(value)
    # A number ends with a digit. This takes a fifth of the time of the expression.
    number = _NUMBER.fullmatch(value) if value[-1:].isdigit() else None
    if number is None:
        return None
    sign, whole, fraction, exponent_sign, exponent = (part or b"" for part in number.groups())
    # Each step below may copy a mebibyte, so there are few of them.
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
    if zeros < 0 or len(digits) + zeros > len(str(INT64_MAX)):
        return None
    integer: int = int(sign + digits) * 10**zeros
    return integer if INT64_MIN <= integer <= INT64_MAX else None


def describe_not_integer(
    name: str, value: bytes, minimum: int = INT64_MIN, maximum: int = INT64_MAX
) -> str:
    """Return the message about a member or parameter that is not such an integer."""
    given = value if len(value) <= _QUOTED_BYTES_MAX else value[:_QUOTED_BYTES_MAX] + b"..."
    text = given.decode(errors="replace")
    shown = text if _JSON_VALUE.match(value) else f'"{text}"'
    return f"`{name}` must be an integer from {minimum} to {maximum}, got {shown}"


# The beginning of a JSON value. Any other text is quoted in a message.
_JSON_VALUE = re.compile(rb'["\[{]|-?\d|(?:true|false|null)\Z')

_NUMBER = re.compile(rb"(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([-+]?)(\d+))?")

# An exponent of more digits is larger than any number of digits that a body can contain.
_EXPONENT_DIGITS_MAX: Final = 18
