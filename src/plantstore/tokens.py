"""Bearer tokens: how one is made, recognised, and remembered.

A token reads `plst_`, 30 random base62 characters (178 bits), and the CRC-32 of
those 30 as 6 base62 characters. Prefix and checksum let a secret scanner, or
this service, recognise one without asking any database. The store keeps nothing
but the SHA-256 of the whole: with so much randomness in the secret, a slow hash
would guard nothing more.
"""

import hashlib
import re
import secrets
import string
import zlib
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
    "metrics:read",
)
DEFAULT_SCOPES: Final = ("plants:create", "plants:read")

_TOKEN = re.compile(
    f"{PREFIX}([{BASE62}]{{{RANDOM_CHARACTERS}}})([{BASE62}]{{{CHECKSUM_CHARACTERS}}})", re.ASCII
)

# What may be one, whole or cut short, or with more behind it.
_SECRET = re.compile(f"{PREFIX}[{BASE62}]+")


class TokenRecord(msgspec.Struct, frozen=True):
    """What the store remembers of a token; times are whole seconds since 1970, UTC."""

    name: str
    digest: bytes
    scopes: frozenset[str]
    created_at: int
    expires_at: int | None = None
    revoked_at: int | None = None

    def state(self, now: float) -> str:
        """Tell whether the token is `active`, `expired` or `revoked` at the time `now`."""
        if self.revoked_at is not None:
            return "revoked"
        if self.expires_at is not None and self.expires_at <= now:
            return "expired"
        return "active"


def mint() -> str:
    """Make a new token. This is the only time that its secret is known."""
    body = "".join(secrets.choice(BASE62) for _ in range(RANDOM_CHARACTERS))
    return PREFIX + body + _checksum(body)


def is_well_formed(token: str) -> bool:
    """Tell whether prefix, length, alphabet and checksum are those of a token."""
    match = _TOKEN.fullmatch(token)
    return match is not None and _checksum(match[1]) == match[2]


def redact(text: str) -> str:
    """Return a text without the secrets of the tokens in it, wherever they stand."""
    return _SECRET.sub(f"{PREFIX}...", text)


def digest(token: str) -> bytes:
    """Return the 32 bytes of SHA-256 under which the store knows the token."""
    return hashlib.sha256(token.encode()).digest()


def _checksum(body: str) -> str:
    number = zlib.crc32(body.encode())
    characters = ""
    for _ in range(CHECKSUM_CHARACTERS):
        number, digit = divmod(number, len(BASE62))
        characters = BASE62[digit] + characters
    return characters
