"""The service without observers: no metrics, no log, and no event for each response."""

import sys

import plantstore.api.app
from noop import serve
from plantstore.api.app import Service
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.server.interface import Receive, Scope, Send
from plantstore.settings import Settings


class _Untold(Service):
    """Serves as the service does, but reports no response to observers."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        if scope["method"] == "POST" and self._is_full():
            raise RuntimeError("the queue is full")
        await self._app(scope, receive, send)


def main(database: str, port: str) -> None:
    plantstore.api.app.__dict__["Service"] = _Untold
    settings = Settings(database=f"sqlite:///{database}", port=int(port))
    serve(settings, GroupCommit, GroupRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
