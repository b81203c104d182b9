"""The no-op handler: this service without its store.

Server, authentication, parsing and response are the same, but nothing waits for a disk. The
difference between a create and this handler is the cost of the writer.

By default it answers each create separately. With the argument `together`, it answers all creates
of one turn of the event loop at the same time, as the group commit does. Separate answers wake
the client for each response, and cost the server the system calls for this; common ones do not.
"""

import asyncio
import functools
import socket
import sys
import time
from collections.abc import Callable
from typing import TypeVar

import uvicorn

from plantstore.api.app import create_app
from plantstore.api.auth import Gate
from plantstore.api.budget import Budget
from plantstore.api.exchange import ASGIApp
from plantstore.api.limits import Bounds
from plantstore.api.operations import Readiness
from plantstore.api.rates import Unlimited
from plantstore.cli.processes import server_config
from plantstore.observe import ignore
from plantstore.plants import NewPlant
from plantstore.reader import GroupRead
from plantstore.settings import Settings
from plantstore.storage import open_store
from plantstore.store import Change, Outcome, Store
from plantstore.writer import GroupCommit

WriterT = TypeVar("WriterT", bound=GroupCommit)


class NoCommit(GroupCommit):
    """Answers at once and stores nothing."""

    async def submit(self, change: Change) -> Outcome:  # noqa: ARG002
        return Outcome.STORED


class NoRead(GroupRead):
    """Returns the same plant at once for every id."""

    async def find_plant(self, id_: int) -> NewPlant | None:
        return NewPlant(id_, "Abies balsamea (L.) Mill.", "Abies")


class NoCommitTogether(GroupCommit):
    """Answers all creates of one turn of the event loop at the same time, and stores nothing."""

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


def serve(
    settings: Settings, make_writer: Callable[[Store], GroupCommit], reader_class: type[GroupRead]
) -> None:
    """Serve as `plantstore serve` does, with another writer or reader."""

    def build_app() -> ASGIApp:
        store = open_store(settings.database)
        writer = make_writer(store)
        gate = Gate(
            store,
            clock=time.time,
            monotonic=time.monotonic,
            rate_limit=Unlimited(),
            observe=ignore,
        )
        return create_app(
            store=store,
            writer=writer,
            reader=reader_class(store, queue_reads_max=1_000, observe=ignore),
            gate=gate,
            readiness=Readiness(store, writer, gate=gate, observe=ignore, server=lambda: None),
            metrics={"text/plain": lambda: b""},
            bounds=Bounds(
                request_seconds=settings.request_seconds,
                head_bytes_max=settings.head_bytes_max,
                connections_max=settings.connections_max,
                budget=Budget(
                    incoming_bytes_max=settings.incoming_bytes_max,
                    unsent_bytes_max=settings.unsent_bytes_max,
                    unsent_answers_max=settings.unsent_answers_max,
                ),
                observe=ignore,
            ),
            body_bytes_max=settings.body_bytes_max,
            pages=None,
            observe=ignore,
            observe_answer=lambda *_: None,
            on_startup=lambda: None,
        )

    with socket.create_server((settings.host, settings.port)) as listener:
        uvicorn.Server(server_config(build_app, settings)).run(sockets=[listener])


def make_writer(writer_class: type[WriterT], store: Store) -> WriterT:
    """Return a writer whose queue is not used."""
    return writer_class(
        store,
        queue_plants_max=1,
        queue_characters_max=1,
        batch_plants_max=1,
        observe=lambda _: None,
    )


def main(database: str, port: str, how: str = "each") -> None:
    writer_class: type[GroupCommit] = {"each": NoCommit, "together": NoCommitTogether}[how]
    settings = Settings(database=f"sqlite:///{database}", port=int(port))
    serve(settings, functools.partial(make_writer, writer_class), NoRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
