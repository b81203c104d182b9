"""The no-op handler: this service in everything but the store, which it leaves out.

The same server, the same authentication, the same parsing and the same answer;
only nothing waits for a disk. What a create costs beyond this is the writer.

It answers each create by itself, or, asked to answer `together`, all that came in
one turn of the event loop, as the group commit does. The first wakes the client
for each answer, and pays for that in its own system calls; the second does not.
"""

import asyncio
import socket
import sys
import time

import uvicorn

from plantstore.api.app import ASGIApp, create_app
from plantstore.api.auth import Gate
from plantstore.cli.serve import server_config
from plantstore.plants import NewPlant
from plantstore.reader import GroupRead
from plantstore.settings import Settings
from plantstore.storage import open_store
from plantstore.store import Change, Outcome
from plantstore.writer import GroupCommit


class NoCommit(GroupCommit):
    """Answers at once, and stores nothing."""

    async def submit(self, change: Change) -> Outcome:  # noqa: ARG002
        return Outcome.STORED


class NoRead(GroupRead):
    """Finds the same plant at once, whatever is asked for."""

    async def find_plant(self, id_: int) -> NewPlant | None:
        return NewPlant(id_, "Abies balsamea (L.) Mill.", "Abies")


class NoCommitTogether(GroupCommit):
    """Answers what came in one turn of the event loop together, and stores nothing."""

    _turn: asyncio.Future[None] | None = None

    async def submit(self, change: Change) -> Outcome:  # noqa: ARG002
        if self._turn is None:
            self._turn = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_soon(self._end_turn, self._turn)
        await self._turn
        return Outcome.STORED

    def _end_turn(self, turn: asyncio.Future[None]) -> None:
        self._turn = None
        turn.set_result(None)


def main(database: str, port: str, how: str = "each") -> None:
    writer_class = {"each": NoCommit, "together": NoCommitTogether}[how]
    settings = Settings(database=f"sqlite:///{database}", port=int(port))

    def build_app() -> ASGIApp:
        store = open_store(settings.database)
        writer = writer_class(
            store,
            queue_plants_max=1,
            queue_characters_max=1,
            batch_plants_max=1,
            observe=lambda _: None,
        )
        return create_app(
            store=store,
            writer=writer,
            reader=NoRead(store, queue_reads_max=1, observe=lambda _: None),
            gate=Gate(store, clock=time.time, monotonic=time.monotonic, observe=lambda _: None),
            body_bytes_max=settings.body_bytes_max,
            observe=lambda _: None,
        )

    with socket.create_server((settings.host, settings.port)) as listener:
        uvicorn.Server(server_config(build_app, settings)).run(sockets=[listener])


if __name__ == "__main__":
    main(*sys.argv[1:])
