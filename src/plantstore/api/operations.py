"""What an operator's machinery asks of the service: is it alive, is it ready, how does it fare."""

import asyncio
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any, Final, TypeAlias

import msgspec
from falcon import mediatypes
from falcon.asgi import Request, Response

from plantstore.api.auth import Gate
from plantstore.errors import StoreUnavailableError
from plantstore.observe import Observer, ReadinessChanged, ServerChanged
from plantstore.store import Store
from plantstore.writer import GroupCommit

# For so long what a probe or a commit showed is good, which bounds what probes cost, whoever
# asks for them.
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
    """`/readyz`: whether a plant would be stored. No token is needed.

    What the last commit met tells most. If there was none lately, a probe of the store
    tells, which all who ask within a second share. Who has a token with the scope
    `metrics:read` is told more: which server of the database is the primary, and when a
    commit last succeeded.
    """

    def __init__(
        self,
        store: Store,
        writer: GroupCommit,
        *,
        gate: Gate,
        observe: Observer,
        server: Callable[[], ServerChanged | None],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store = store
        self._writer = writer
        self._gate = gate
        self._observe = observe
        self._server = server
        self._monotonic = monotonic
        self._probe: asyncio.Future[None] | None = None
        self._probed_at = 0.0
        self._is_ready = True
        self._is_stopping = False

    def stop(self) -> None:
        """Be not ready from now on."""
        self._is_stopping = True

    async def on_get(self, req: Request, resp: Response) -> None:
        """Answer 200 if the store takes plants; what the error table says if it does not."""
        if self._is_stopping:
            raise StoreUnavailableError("The service is stopping")
        if failure := self._writer.recent_failure():
            self._learn(failure)
            raise StoreUnavailableError(failure.message)
        if self._writer.seconds_since_commit() <= LOOK_SECONDS:
            self._learn(None)
        else:
            await self._probed()
        resp.data = msgspec.json.encode(self._detail()) if await self._may_see(req) else _OK

    on_head = on_get

    async def _may_see(self, req: Request) -> bool:
        if not req.auth:
            return False
        try:
            await self._gate.authorize(req, "metrics:read")
        except Exception:  # noqa: BLE001 (whatever it is: it is ready, and says so)
            return False
        return True

    def _detail(self) -> dict[str, Any]:
        seconds = self._writer.seconds_since_commit()
        server = self._server()
        return {
            "status": "ok",
            "seconds_since_commit": None if math.isinf(seconds) else round(seconds, 3),
            "database": asdict(server) if server and server.server else None,
        }

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
