"""The service without observers: no metrics, no log, and no event for each response."""

import sys

import plantstore.api.app
from noop import serve
from plantstore import observe
from plantstore.api.exchange import Exchange, Receive, Scope, Send
from plantstore.reader import GroupRead
from plantstore.settings import Settings
from plantstore.store import Store
from plantstore.writer import GroupCommit


class _Untold(Exchange):
    """Serves as the service does, but reports no response to observers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "POST" and self._is_full():
            raise RuntimeError("the queue is full")
        await self._serve(scope, receive, send)


def _ignore(_event: observe.Event) -> None:
    pass


def main(database: str, port: str) -> None:
    settings = Settings(database=f"sqlite:///{database}", port=int(port))

    def make_writer(store: Store) -> GroupCommit:
        return GroupCommit(
            store,
            queue_plants_max=settings.queue_plants_max,
            queue_characters_max=settings.queue_characters_max,
            batch_plants_max=settings.batch_plants_max,
            observe=_ignore,
        )

    plantstore.api.app.__dict__["Exchange"] = _Untold
    serve(settings, make_writer, GroupRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
