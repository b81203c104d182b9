"""The no-op handler: this service in everything but the store, which it leaves out.

The same server, the same authentication, the same parsing and the same answer;
only nothing waits for a disk. What a create costs beyond this is the writer.
"""

import socket
import sys
import time

import uvicorn

from plantstore.api.app import ASGIApp, create_app
from plantstore.api.auth import Gate
from plantstore.cli.serve import server_config
from plantstore.plants import NewPlant
from plantstore.settings import Settings
from plantstore.storage import open_store
from plantstore.store import Outcome
from plantstore.writer import GroupCommit


class NoCommit(GroupCommit):
    """Answers at once, and stores nothing."""

    async def submit(self, plant: NewPlant) -> Outcome:  # noqa: ARG002
        return Outcome.STORED


def main(database: str, port: str) -> None:
    settings = Settings(database=f"sqlite:///{database}", port=int(port))

    def build_app() -> ASGIApp:
        store = open_store(settings.database)
        writer = NoCommit(
            store,
            queue_plants_max=1,
            queue_characters_max=1,
            batch_plants_max=1,
            observe=lambda _: None,
        )
        return create_app(
            store=store,
            writer=writer,
            gate=Gate(store, clock=time.time, monotonic=time.monotonic),
            body_bytes_max=settings.body_bytes_max,
            observe=lambda _: None,
        )

    with socket.create_server((settings.host, settings.port)) as listener:
        uvicorn.Server(server_config(build_app, settings)).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
