"""What an operator's machinery asks of the service: is it alive, is it ready."""

import asyncio
from typing import Final

from falcon.asgi import Request, Response

from plantstore.observe import Observer, ReadinessChanged
from plantstore.store import Store

# For so long an answer is good, which bounds what probes cost, whoever sends them.
LOOK_SECONDS: Final = 1.0

_OK: Final = b'{"status":"ok"}'


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

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Answer 200 if the store takes plants; what the error table says if it does not."""
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
