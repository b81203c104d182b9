"""The address and the scheme of a client behind trusted and untrusted proxies."""

import httpx
import pytest

from plantstore.server.workers import uvicorn_config
from plantstore.settings import Settings
from support.world import World

# The in-process client of these tests comes from 127.0.0.1.
PROXY = "127.0.0.1"
TRUSTED = [PROXY, "10.0.0.0/8", "2001:db8::/32"]
CLIENT = "203.0.113.9"


def seen(fields: list[tuple[str, str]], trusted: list[str]) -> tuple[str, str]:
    """Return the address and the scheme of the client that are reported to the observer."""
    with World() as world:
        config = uvicorn_config(lambda: world.app, Settings(trusted_proxy=tuple(trusted)))
        config.load()
        transport = httpx.ASGITransport(config.loaded_app)
        world.client = httpx.AsyncClient(transport=transport, base_url="http://plants")
        assert world.ask("GET", "/healthz", headers=fields).status_code == 200
    [answered] = world.answers
    return answered.request["client"][0], answered.request["scheme"]


@pytest.mark.parametrize(
    ("trusted", "addresses", "client", "scheme"),
    [
        (TRUSTED, CLIENT, CLIENT, "https"),
        # The client sent the first address to its proxy.
        (TRUSTED, f"198.51.100.1, {CLIENT}, 10.1.1.1,2001:db8::1", CLIENT, "https"),
        ([], CLIENT, PROXY, "http"),
        (["10.0.0.0/8"], CLIENT, PROXY, "http"),
    ],
)
def test_only_trusted_proxies_say_the_address_and_scheme_of_a_client(
    monkeypatch: pytest.MonkeyPatch, trusted: list[str], addresses: str, client: str, scheme: str
) -> None:
    monkeypatch.setenv("FORWARDED_ALLOW_IPS", "*")  # uvicorn's own setting
    fields = [("X-Forwarded-For", addresses), ("X-Forwarded-Proto", "https")]

    assert seen(fields, trusted) == (client, scheme)
