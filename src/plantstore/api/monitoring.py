"""The operations for monitoring: `/healthz`, `/readyz`, `/metrics`."""

import asyncio
import math
import time
from collections.abc import Callable
from typing import Final, Generic, TypeVar

from plantstore.api.parameters import json_response
from plantstore.commit.writer import GroupCommit
from plantstore.errors import StoreUnavailableError
from plantstore.messages import Request, Response
from plantstore.observe import Observer, ReadinessChanged
from plantstore.store import PlantStore

# How long the result of a check of the store, and a rendering of the metrics count as current. This
# limits their cost, no matter how many requests there are.
RESULT_SECONDS: Final = 1.0

# How long a failed commit makes the service not ready, unless a later commit succeeds. A
# check may succeed in this time, because it needs less disk space, for example.
FAILURE_SECONDS: Final = 10.0

_OK: Final = b'{"status":"ok"}'

# The media type of the text format of Prometheus.
MEDIA_METRICS: Final = "text/plain; version=0.0.4; charset=utf-8"

ResultT = TypeVar("ResultT")


class _Shared(Generic[ResultT]):
    """The result of a function that a thread runs, at most once in RESULT_SECONDS."""

    def __init__(self, function: Callable[[], ResultT], monotonic: Callable[[], float]) -> None:
        self._function = function
        self._monotonic = monotonic
        self._run: asyncio.Future[ResultT] | None = None
        self._began_at = -math.inf

    def get(self) -> asyncio.Future[ResultT]:
        """Return the result of the current run, or of a new one."""
        now = self._monotonic()
        run = self._run
        if run is None or (run.done() and now - self._began_at > RESULT_SECONDS):
            self._began_at = now
            run = self._run = asyncio.ensure_future(asyncio.to_thread(self._function))
        return run


async def show_liveness(_request: Request) -> Response:
    """Respond with 200: the process is alive."""
    return json_response(_OK)


class Readiness:
    """`/readyz`: whether a plant would be stored.

    The response shows the result of the last commit, and whether the store can be read. Some time
    after a failure, `check_writable` is called until it or a commit succeeds. All requests within a
    second share one check. So requests write nothing while the store works.
    """

    def __init__(
        self,
        store: PlantStore,
        writer: GroupCommit,
        *,
        observe: Observer,
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._writer = writer
        self._monotonic = monotonic
        self._observe = observe
        self._readable = _Shared(store.check_readable, monotonic)
        self._writable = _Shared(store.check_writable, monotonic)
        self._is_ready = True
        self._survived: BaseException | None = None  # a failure after which a check succeeded
        self._is_stopping = False

    def stop(self) -> None:
        """Report not ready from now on."""
        self._is_stopping = True

    async def show(self, _request: Request) -> Response:
        """Respond with 200 if a plant would be stored, or else with 503 and an Error."""
        if self._is_stopping:
            raise StoreUnavailableError("The service is stopping")
        failure = self._writer.failure
        if failure is None or failure is self._survived:
            await self._wait(self._readable)
        elif self._monotonic() - self._writer.failed_at < FAILURE_SECONDS:
            self._record(failure)
            raise StoreUnavailableError(failure.message)
        else:
            await self._wait(self._writable)
            self._survived = failure
        return json_response(_OK)

    async def _wait(self, shared: _Shared[None]) -> None:
        result = shared.get()
        try:
            await asyncio.shield(result)
        finally:
            if result.done() and not result.cancelled():
                self._record(result.exception())

    def _record(self, error: BaseException | None) -> None:
        if self._is_ready != (error is None):
            self._is_ready = error is None
            self._observe(ReadinessChanged(error))


class Measurements:
    """`/metrics`: the metrics for Prometheus, as `render` returns them on another thread."""

    def __init__(
        self, render: Callable[[], bytes], *, monotonic: Callable[[], float] = time.monotonic
    ) -> None:
        self._rendered = _Shared(render, monotonic)

    async def show(self, _request: Request) -> Response:
        """Respond with the metrics."""
        body = await asyncio.shield(self._rendered.get())
        return Response(200, {"Content-Type": MEDIA_METRICS}, body)
