"""Health checks and metrics: `/healthz`, `/readyz`, `/metrics`."""

import asyncio
import time
from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from falcon.asgi import Request, Response

from plantstore.api.auth import Authenticator
from plantstore.api.negotiation import Compressor
from plantstore.commit.writer import GroupCommit
from plantstore.errors import StoreUnavailableError
from plantstore.observe import Observer, ReadinessChanged
from plantstore.store import PlantWrites

# How long the result of a probe or a commit counts as current. This limits the cost of probes,
# no matter how many requests there are.
LOOK_SECONDS: Final = 1.0

_OK: Final = b'{"status":"ok"}'

# Functions that render the metrics, by media type; the default media type is the first. They run
# on another thread.
Renderings: TypeAlias = Mapping[str, Callable[[], bytes]]


class Liveness:
    """`/healthz`: whether the process answers. It needs no token."""

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Respond with 200."""
        resp.data = _OK

    on_head = on_get


class Readiness:
    """`/readyz`: whether a plant would be stored. It needs no token.

    The response shows the result of the last commit. If there was no commit within the last
    second, the store is probed; all requests within a second share one probe.
    """

    def __init__(
        self,
        store: PlantWrites,
        writer: GroupCommit,
        *,
        observe: Observer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._writer = writer
        self._observe = observe
        self._monotonic = monotonic
        self._probe: asyncio.Future[None] | None = None
        self._probed_at = 0.0
        self._is_ready = True
        self._is_stopping = False

    def stop(self) -> None:
        """Report not ready from now on."""
        self._is_stopping = True

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Respond with 200 if a plant would be stored, or else with 503 and an Error."""
        if self._is_stopping:
            raise StoreUnavailableError("The service is stopping")
        if failure := self._writer.recent_failure():
            self._learn(failure)
            raise StoreUnavailableError(failure.message)
        if self._writer.seconds_since_commit() <= LOOK_SECONDS:
            self._learn(None)
        else:
            await self._probed()
        resp.data = _OK

    on_head = on_get

    async def _probed(self) -> None:
        now = self._monotonic()
        if self._probe is None or (self._probe.done() and now - self._probed_at > LOOK_SECONDS):
            self._probed_at = now
            self._probe = asyncio.ensure_future(asyncio.to_thread(self._store.probe))
            self._probe.add_done_callback(self._learn_from)
        await asyncio.shield(self._probe)

    def _learn_from(self, probe: asyncio.Future[None]) -> None:
        if not probe.cancelled():
            self._learn(probe.exception())

    def _learn(self, error: BaseException | None) -> None:
        if self._is_ready != (error is None):
            self._is_ready = error is None
            self._observe(ReadinessChanged(error))


class Measurements:
    """`/metrics`: the metrics for Prometheus. It needs a token with the scope `metrics:read`."""

    def __init__(
        self, authenticator: Authenticator, renderings: Renderings, compressor: Compressor
    ) -> None:
        self._authenticator = authenticator
        self._renderings = renderings
        self._compressor = compressor

    async def on_get(self, req: Request, resp: Response) -> None:
        """Respond with the metrics in the media type that the client prefers."""
        await self._authenticator.authorize(req, "metrics:read")
        resp.append_header("Vary", "Accept")
        default, *_ = self._renderings
        media_type = req.client_prefers(self._renderings) or default
        resp.content_type = media_type
        content = await asyncio.to_thread(self._renderings[media_type])
        await self._compressor.answer(req, resp, content)

    on_head = on_get
