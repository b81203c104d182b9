"""The preferences of a request (RFC 7240)."""

import re
from typing import Final

from falcon.asgi import Request

_PREFERENCE: Final = re.compile(
    r'(?:^|,)[ \t]*([a-z]+)[ \t]*=[ \t]*(?:([a-z]+)|"([a-z]+)")[ \t]*(?=$|[,;])', re.IGNORECASE
)


def has_preference(req: Request, preference: str) -> bool:
    """Return whether a request has a preference, such as `return=minimal`."""
    field = req.get_header("Prefer")
    return field is not None and any(
        f"{name}={value or quoted}".lower() == preference
        for name, value, quoted in _PREFERENCE.findall(field)
    )
