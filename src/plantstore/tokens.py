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
from urllib.parse import unquote

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

# What may be one, whole or cut short, or with more behind it, up to the end of what it stands in.
_SECRET = re.compile(rf"{PREFIX}[^\s/?&=\"'<>]+", re.IGNORECASE)

# What a text has in it if it holds one; most hold neither.
_SUSPECT = re.compile(rf"[%\\]|{PREFIX}", re.IGNORECASE)

# A character as JSON may write it (RFC 8259 §7).
_ESCAPED = re.compile(r"\\u([0-9a-fA-F]{4})")

# What is encoded more often is not shown at all: each decoding takes time.
_DECODINGS_MAX: Final = 5
_ENCODED = re.compile(r"[%\\]\S*")

# What is shown instead.
_HIDDEN: Final = "..."
_REDACTED: Final = f"{PREFIX}{_HIDDEN}"


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
    """Return a text without the secrets of the tokens in it, wherever they stand.

    A text that holds one is returned decoded. Percent-encoding (RFC 3986 §2.1) and the
    escapes of JSON do not hide one, also if they are used more than once.
    """
    if not _SUSPECT.search(text):
        return text
    plain = text
    for _ in range(_DECODINGS_MAX):
        decoded = _ESCAPED.sub(lambda escape: chr(int(escape[1], 16)), unquote(plain))
        if decoded == plain:
            break
        plain = decoded
    else:
        return _SECRET.sub(_REDACTED, _ENCODED.sub(_HIDDEN, text))
    shown = _SECRET.sub(_REDACTED, plain)
    return text if shown == plain else shown


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
