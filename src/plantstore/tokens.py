"""Bearer tokens: how they are created, recognised and stored.

A token is `plst_`, 30 random base62 characters (178 bits), and the CRC-32 of these 30
characters as 6 base62 characters. By prefix and checksum, a secret scanner or this
service recognises a token without a database. The store has only the SHA-256 of the
token: the secret is so random that a slow hash would not protect it better.
"""

import hashlib
import re
import secrets
import string
import zlib
from datetime import UTC, datetime
from typing import Final

import msgspec

PREFIX: Final = "plst_"
RANDOM_CHARACTERS: Final = 30
CHECKSUM_CHARACTERS: Final = 6
BASE62: Final = string.digits + string.ascii_uppercase + string.ascii_lowercase

SCOPES: Final = (
    "plants:create",
    "plants:read",
    "plants:update",
    "plants:delete",
    "changes:read",
    "metrics:read",
)
DEFAULT_SCOPES: Final = ("plants:create", "plants:read")

_TOKEN: Final = re.compile(
    f"{PREFIX}([{BASE62}]{{{RANDOM_CHARACTERS}}})([{BASE62}]{{{CHECKSUM_CHARACTERS}}})", re.ASCII
)

# Text that may be a token: complete, truncated, or with further characters. Each character of its
# prefix may be percent-encoded (RFC 3986 §2.1), also repeatedly, or escaped as in JSON (RFC 8259
# §7).
_SECRET: Final = re.compile(
    "".join(rf"(?:{char}|%(?:25)*{ord(char):x}|\\u00{ord(char):x})" for char in PREFIX)
    + r"[^\s/?&=\"'<>]+",
    re.IGNORECASE,
)

# What is shown instead of it.
_REDACTED: Final = f"{PREFIX}..."


class TokenRecord(msgspec.Struct, frozen=True):
    """The stored data of a token. Times are whole seconds since 1970, UTC."""

    name: str
    digest: bytes
    scopes: frozenset[str]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    def state(self, now: float) -> str:
        """Return the state of the token at the time `now`: `active`, `expired` or `revoked`."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return "active"


def render_time(seconds: int) -> str:
    """Return a time as text: `2026-11-21T06:11:13Z` (RFC 3339 §5.6).

    `datetime` has no dates after the year 9999.
    """
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%SZ}"


def mint() -> str:
    """Create the secret of a new token. It is stored nowhere."""
    body = "".join(secrets.choice(BASE62) for _ in range(RANDOM_CHARACTERS))
    return PREFIX + body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Return whether prefix, length, alphabet and checksum are those of a token."""
    match = _TOKEN.fullmatch(token)
    return match is not None and _checksum(match[1]) == match[2]


def redact(text: str) -> str:
    """Return a text without the secrets of tokens.

    Tokens are found also if their characters are percent-encoded or escaped as in JSON.
    """
    # A fast check: an encoded token has an escape, and another one has the prefix.
    if "%" not in text and "\\" not in text and PREFIX not in text.lower():
        return text
    return _SECRET.sub(_REDACTED, text)


def digest(token: str) -> bytes:
    """Return the SHA-256 of a token, 32 bytes, by which the store finds it."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    characters = ""
    for _ in range(CHECKSUM_CHARACTERS):
        number, digit = divmod(number, len(BASE62))
        characters = BASE62[digit] + characters
    return characters
