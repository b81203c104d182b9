"""The clients of trusted proxies, by `X-Forwarded-For` and `X-Forwarded-Proto`.

Each proxy appends the address of its client (https://www.rfc-editor.org/rfc/rfc7239 §7.4). So the
last address that is not that of a trusted proxy is the client: whoever that is may have sent the
addresses before it.
"""

import ipaddress
import re
from collections.abc import Collection
from functools import lru_cache
from typing import Final

from plantstore.messages import Address, Request

# Addresses that are cached.
_CACHED_ADDRESSES: Final = 4096

# An address of IPv6 without brackets has no port.
_HOP: Final = re.compile(
    r"\[(?P<v6>[^\[\]]*)\](?::(?P<port6>[0-9]{1,5}))?|(?P<host>[^:]*)(?::(?P<port>[0-9]{1,5}))?"
)

# How IPv6 begins an address of IPv4 (RFC 4291 §2.5.5.2).
IPV4_MAPPED = "::ffff:"

# An address is shorter. A client may send any text.
_ADDRESS_CHARACTERS_MAX: Final = 64


class TrustedProxies:
    """Proxies that report the address and the scheme of their clients.

    Args:
        networks: addresses and networks, such as 10.0.0.7 and 10.0.0.0/24.

    Raises:
        ValueError: one is malformed.

    """

    def __init__(self, networks: Collection[str] = ()) -> None:
        self._networks = [ipaddress.ip_network(network) for network in networks]
        self._is_trusted = lru_cache(_CACHED_ADDRESSES)(self._is_in_network)

    def __bool__(self) -> bool:
        return bool(self._networks)

    def correct(self, request: Request) -> None:
        """Give a request of a trusted proxy the address and the scheme of its client."""
        if request.client is None or not self._is_trusted(request.client[0]):
            return
        scheme = request.fields.get("x-forwarded-proto", "").rpartition(",")[2].strip()
        if scheme in ("http", "https"):
            request.scheme = scheme
        hops = [_parse(hop.strip()) for hop in request.fields.get("x-forwarded-for", "").split(",")]
        untrusted = [hop for hop in hops if not self._is_trusted(hop[0])]
        client = untrusted[-1] if untrusted else hops[0]
        if client[0]:
            request.client = client

    def _is_in_network(self, address: str) -> bool:
        if len(address) > _ADDRESS_CHARACTERS_MAX:
            return False
        try:
            parsed = ipaddress.ip_address(address)
        except ValueError:
            return False
        return any(parsed in network for network in self._networks)


def _parse(hop: str) -> Address:
    """Return the address and the port of a hop; the port is 0 if it has none.

    A hop that is malformed is no address, so no proxy that is trusted has it.
    """
    found = _HOP.fullmatch(hop.removeprefix(IPV4_MAPPED))
    if found is None:
        return hop, 0
    address = found["v6"] or found["host"] or ""
    return address.removeprefix(IPV4_MAPPED), int(found["port"] or found["port6"] or 0)
