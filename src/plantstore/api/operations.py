"""What an operator's machinery asks of the service: is it alive, is it ready, how does it fare."""

import asyncio
from collections.abc import Callable
from typing import Final, TypeAlias

from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.errors import StoreUnavailableError
from plantstore.observe import Observer, ReadinessChanged
from plantstore.store import Store

# For so long an answer is good, which bounds what probes cost, whoever sends them.
LOOK_SECONDS: Final = 1.0

_OK: Final = b'{"status":"ok"}'

# Takes an Accept field, or an empty one; returns a media type, and metrics in it. It is
# called on a thread.
RenderMetrics: TypeAlias = Callable[[str], tuple[str, bytes]]


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

    def __init__(self, gate: Gate, render: RenderMetrics) -> None:
        self._gate = gate
        self._render = render

    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer what was counted, in a form that Prometheus reads."""
        await self._gate.authorize(req, "metrics:read")
        accept = req.get_header("Accept") or ""
        resp.content_type, resp.data = await asyncio.to_thread(self._render, accept)

    on_head = on_get
