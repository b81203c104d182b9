"""`/token`: what the service knows about the token of a request."""

import msgspec
from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.api.parameters import NO_PARAMETERS, read_query
from plantstore.tokens import render_time


class TokenDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """The Token record of the interface."""

    name: str
    scopes: list[str]
    expires_at: str | None = None


class OwnToken:
    """Tells a client what its own token permits, so that it offers nothing else."""

    def __init__(self, gate: Gate) -> None:
        self._gate = gate

    async def on_get(self, req: Request, resp: Response) -> None:
        """Describe the token of the request. It needs no scope."""
        token = await self._gate.identify(req)
        self._gate.spend(token.name, 1)
        read_query(req, NO_PARAMETERS)
        expires_at = None if token.expires_at is None else render_time(token.expires_at)
        described = TokenDescription(token.name, sorted(token.scopes), expires_at)
        resp.data = msgspec.json.encode(described)

    on_head = on_get
