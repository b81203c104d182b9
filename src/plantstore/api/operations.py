"""What an operator's machinery asks of the service: is it alive, is it ready."""

import asyncio

from falcon.asgi import Request, Response

from plantstore.store import Store

_OK = b'{"status":"ok"}'


class Liveness:
    """`/healthz`. No token is needed."""

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Answer, which only a process that is alive does."""
        resp.data = _OK

    on_head = on_get


class Readiness:
    """`/readyz`. No token is needed, so all who ask at a time share one look at the store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._look: asyncio.Future[None] | None = None

    async def on_get(self, _req: Request, resp: Response) -> None:
        """Answer 200 if the store takes plants; what the error table says if it does not."""
        if self._look is None or self._look.done():
            self._look = asyncio.ensure_future(asyncio.to_thread(self._store.probe))
            # Who asked may be gone; asyncio would complain of an error that nobody heard.
            self._look.add_done_callback(lambda look: look.cancelled() or look.exception())
        await asyncio.shield(self._look)
        resp.data = _OK

    on_head = on_get
