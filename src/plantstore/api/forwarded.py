"""Finds the client of a request behind proxies: `Forwarded` (RFC 7239), `X-Forwarded-For`.

Each proxy appends the address from which it got the request, so the lists are read from their
end. The first address that is not a trusted proxy is the client's. Anything before it was
written by the client, or by proxies that are not trusted, and is not read.

uvicorn has a middleware for this. But it does not know `Forwarded`, accepts any text as an
address, and does not match several schemes to the list of addresses.
"""

import functools
import re
from collections.abc import Collection, Iterable, Sequence
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, NamedTuple, TypeAlias

from plantstore.api.exchange import ASGIApp, Receive, Scope, Send
from plantstore.errors import UsageError
from plantstore.tracing import GIVEN_ID_FIELD, parse_given_id

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

# Maximum number of proxies in a list. Entries before them are not read.
HOPS_MAX: Final = 16

_SCHEMES: Final = frozenset({"http", "https"})

# RFC 9110 §5.6.2 and §5.6.4, without escaped characters: no address and no scheme needs them.
_PAIR: Final = re.compile(
    r"""[ \t]*([\w!#$%&'*+.^`|~-]+)=(?:([\w!#$%&'*+.^`|~-]+)|"([^"\\]*)")[ \t]*""", re.ASCII
)

# An address with or without a port (RFC 7239 §6). X-Forwarded-For also has IPv6 without brackets.
_NODE: Final = re.compile(
    r"\[([0-9a-f:.]+)\](?::\w{1,6})?|([0-9.]+)(?::\w{1,6})?|([0-9a-f:.]+)", re.ASCII | re.IGNORECASE
)


class Hop(NamedTuple):
    """The entry that a proxy adds about the sender of a request.

    Attributes:
        address: of the sender; None if it is unknown or hidden.
        scheme: `http` or `https`; None if it is not given.

    """

    address: Address | None
    scheme: str | None


def parse_network(text: str) -> Network:
    """Parse a network, or a single address as a network.

    Raises:
        UsageError: the text is neither.

    """
    try:
        return ip_network(text)
    except ValueError as error:
        raise UsageError(
            "--trusted-proxy must be an address such as 10.0.0.7, or a network such as"
            f" 10.0.0.0/24; got {text!r}"
        ) from error


class TrustedProxies:
    """Takes the client's address, the scheme and the request id from trusted proxies.

    These fields are ignored in requests from others, because any client can send them.

    Args:
        app: handles the requests. It finds the client in the scope, and the id of the request
            with `plantstore.tracing`.
        networks: of the proxies.

    """

    def __init__(self, app: ASGIApp, networks: Collection[str]) -> None:
        self._app = app
        self._networks = [parse_network(each) for each in networks]
        self._trusts_host = functools.lru_cache(maxsize=1024)(self._find_trust)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Serve a request, or ASGI's lifespan events (ASGI 3)."""
        client = scope.get("client")
        if client and scope["type"] == "http" and self._trusts_host(client[0]):
            self._learn(scope)
        await self._app(scope, receive, send)

    def _learn(self, scope: Scope) -> None:
        fields: dict[bytes, list[str]] = {}
        for name, value in scope["headers"]:
            fields.setdefault(name, []).append(value.decode("latin-1"))
        origins = [
            self._find_origin(parse_forwarded(fields.get(b"forwarded", ()))),
            self._find_origin(
                parse_x_forwarded(
                    fields.get(b"x-forwarded-for", ()), fields.get(b"x-forwarded-proto", ())
                )
            ),
        ]
        # A proxy writes one of the two fields, and may pass on the other one as the client sent
        # it. So if they differ, neither is used.
        addresses = {origin.address for origin in origins} - {None}
        schemes = {origin.scheme for origin in origins} - {None}
        if len(addresses) == 1:
            scope["client"] = (str(addresses.pop()), 0)
        if len(schemes) == 1:
            scope["scheme"] = schemes.pop()
        id_ = parse_given_id(fields.get(b"x-request-id", ()))
        if id_ is not None:
            scope["headers"] = [*scope["headers"], (GIVEN_ID_FIELD, id_.encode())]

    def _find_origin(self, hops: Iterable[Hop]) -> Hop:
        """Return the hop from the client, or else from the farthest known proxy."""
        origin = Hop(None, None)
        for hop in hops:
            if hop.address is None:
                # The nearest proxy may give only the scheme.
                return hop if origin.address is None else origin
            origin = hop
            if not self._trusts(hop.address):
                break
        return origin

    def _find_trust(self, host: str) -> bool:
        try:
            return self._trusts(ip_address(host))
        except ValueError:
            return False

    def _trusts(self, address: Address) -> bool:
        address = _unmapped(address)
        return any(address in network for network in self._networks)


def parse_forwarded(values: Sequence[str]) -> Iterable[Hop]:
    """Parse `Forwarded` fields from the end (RFC 7239 §4), up to a malformed element.

    Each comma ends an element, even if the comma is in quotes. That is safe: no address and no
    scheme has a comma, and half of a quoted text is malformed.
    """
    for element in _from_the_end(values):
        pairs = [_PAIR.fullmatch(pair) for pair in element.split(";")]
        named = {
            pair[1].lower(): pair[2] if pair[3] is None else pair[3]
            for pair in pairs
            if pair is not None
        }
        if len(named) < len(pairs):  # a pair is malformed, or a name is used twice
            return
        yield Hop(_parse_node(named.get("for", "")), _parse_scheme(named.get("proto", "")))


def parse_x_forwarded(addresses: Sequence[str], schemes: Sequence[str]) -> Iterable[Hop]:
    """Parse `X-Forwarded-For` and `X-Forwarded-Proto` from the end.

    A single scheme belongs to the client. Of several schemes, each belongs to the address at the
    same position.
    """
    nodes, protocols = _from_the_end(addresses), _from_the_end(schemes)
    if len(protocols) == 1:
        protocols *= max(1, len(nodes))
    elif len(protocols) != len(nodes):
        protocols = [""] * len(nodes)
    nodes = nodes or [""] * len(protocols)
    for node, protocol in zip(nodes, protocols, strict=True):
        yield Hop(_parse_node(node.strip(" \t")), _parse_scheme(protocol.strip(" \t")))


def _from_the_end(values: Sequence[str]) -> list[str]:
    """Return the elements of a list in reverse order. The list may span several fields."""
    return ",".join(values).rsplit(",", HOPS_MAX)[-1 : -HOPS_MAX - 1 : -1] if values else []


def _parse_node(text: str) -> Address | None:
    match = _NODE.fullmatch(text)
    if match is None:
        return None
    try:
        return _unmapped(ip_address(match[1] or match[2] or match[3]))
    except ValueError:
        return None


def _parse_scheme(text: str) -> str | None:
    scheme = text.lower()
    return scheme if scheme in _SCHEMES else None


def _unmapped(address: Address) -> Address:
    """Return the IPv4 address of a client that connected to an IPv6 socket."""
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
