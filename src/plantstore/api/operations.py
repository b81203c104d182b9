"""What an operator's machinery asks of the service: is it alive, is it ready, how does it fare."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from falcon import mediatypes
from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.errors import StoreUnavailableError
from plantstore.observe import Observer, ReadinessChanged
from plantstore.store import Store

# For so long an answer is good, which bounds what probes cost, whoever sends them.
LOOK_SECONDS: Final = 1.0

_OK: Final = b'{"status":"ok"}'

# As much of an Accept field as is read. Prometheus sends 300 characters.
ACCEPT_CHARACTERS_MAX: Final = 2048

# Render the metrics, by media type, the one by default first. They are called on a thread.
Renderings: TypeAlias = Mapping[str, Callable[[], bytes]]


class Liveness:
    """`/healthz`. No token is needed."""

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Answer, which only a process that is alive does."""
        resp.data = _OK

    on_head = on_get


class Readiness:
    """`/readyz`. No token is needed, so all who ask within a second share one look at the store."""

    def __init__(self, store: Store, observe: Observer) -> None:
        self._store = store
        self._observe = observe
        self._look: asyncio.Future[None] | None = None
        self._looked_at = 0.0
        self._is_ready = True
        self._is_stopping = False

    def stop(self) -> None:
        """Be not ready from now on."""
        self._is_stopping = True

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Answer 200 if the store takes plants; what the error table says if it does not."""
        if self._is_stopping:
            raise StoreUnavailableError("The service is stopping")
        now = asyncio.get_running_loop().time()
        if self._look is None or (self._look.done() and now - self._looked_at > LOOK_SECONDS):
            self._looked_at = now
            self._look = asyncio.ensure_future(asyncio.to_thread(self._store.probe))
            self._look.add_done_callback(self._learn)
        await asyncio.shield(self._look)
        resp.data = _OK

    on_head = on_get

    def _learn(self, look: asyncio.Future[None]) -> None:
        if look.cancelled():
            return
        error = look.exception()
        if self._is_ready != (error is None):
            self._is_ready = error is None
            self._observe(ReadinessChanged(error))


class Measurements:
    """`/metrics`, for a token with the scope `metrics:read`."""

    def __init__(self, gate: Gate, renderings: Renderings) -> None:
        self._gate = gate
        self._renderings = renderings

    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer what was counted, in the form that the client prefers (RFC 9110 §12.5.1).

        One that accepts neither form, or sends no good Accept field, gets the one by
        default, as §12.4.1 allows.
        """
        await self._gate.authorize(req, "metrics:read")
        resp.content_type = _choose(list(self._renderings), req.accept)
        resp.data = await asyncio.to_thread(self._renderings[resp.content_type])

    on_head = on_get


def _choose(media_types: list[str], accept: str) -> str:
    try:
        if len(accept) <= ACCEPT_CHARACTERS_MAX:
            # Types are in any case (§8.3.1), and ours in the lower one.
            return mediatypes.best_match(media_types, accept.lower()) or media_types[0]
    except ValueError:  # It is malformed.
        pass
    return media_types[0]
