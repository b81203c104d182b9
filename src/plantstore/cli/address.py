"""The address of a service, and the token for it, as options of the command line give them."""

import contextlib
import http.client
import ipaddress
import ssl
from pathlib import Path
from typing import Final
from urllib.parse import SplitResult, urlsplit

import click

from plantstore.errors import OperationError, UsageError
from plantstore.settings import KIB

# How long the service may be silent.
SILENCE_SECONDS_MAX: Final = 60

_TOKEN_BYTES_MAX: Final = 4 * KIB


def parse_url(url: str) -> SplitResult:
    """Return the parts of the URL of a service; warn if a token would be sent in the clear.

    Raises:
        UsageError: it is not such a URL.

    """
    try:
        parts = urlsplit(url)
        is_right = (
            parts.scheme in ("http", "https")
            and parts.hostname
            and parts.port != 0
            and parts.username is parts.password is None
            and not (parts.query or parts.fragment)
            and url.isascii()
            and url.isprintable()
            and " " not in url
        )
    except ValueError:
        is_right = False
    if not is_right:
        raise UsageError(
            f"--url must be the URL of a service, such as https://garden.example, got {url!r}"
        )
    if parts.scheme == "http" and not _is_this_machine(parts.hostname or ""):
        click.echo(f"Warning: the token is sent to {url} without encryption", err=True)
    return parts


def _is_this_machine(host: str) -> bool:
    with contextlib.suppress(ValueError):
        return ipaddress.ip_address(host).is_loopback
    return host == "localhost"


def read_token(file: Path | None) -> str:
    """Return the token in a file.

    Raises:
        UsageError: no file is given, or it contains something else.
        OperationError: the file cannot be read.

    """
    if file is None:
        raise UsageError("--url needs --token-file, a file that contains a token of the service")
    try:
        with file.open("rb") as source:
            token = source.read(_TOKEN_BYTES_MAX).strip()
    except OSError as error:
        raise OperationError(f"{file} cannot be read: {error.strerror}") from error
    text = token.decode("ascii", errors="replace")
    if not text.isascii() or not text.isprintable() or not text or " " in text:
        raise UsageError(f"--token-file: {file} must contain one token and nothing else")
    return text


def connection_to(parts: SplitResult, ca: Path | None) -> http.client.HTTPConnection:
    """Return a connection to a service, which is not open yet.

    Raises:
        UsageError: `ca` contains no certificates, or has no effect.

    """
    host = parts.hostname or ""
    # Without a port, the client would take the last part of an IPv6 address for one.
    port = parts.port or (443 if parts.scheme == "https" else 80)
    if parts.scheme == "http":
        if ca is not None:
            raise UsageError("--ca has no effect with http")
        return http.client.HTTPConnection(host, port, timeout=SILENCE_SECONDS_MAX)
    try:
        context = ssl.create_default_context(cafile=ca)
    except (OSError, ssl.SSLError) as error:
        raise UsageError(f"--ca: {ca} is no file of certificates in PEM: {error}") from error
    return http.client.HTTPSConnection(host, port, timeout=SILENCE_SECONDS_MAX, context=context)
