"""The service without its store.

Server, authentication, parsing and response are the same, but nothing waits for a disk. The
difference between a create and this handler is the cost of the writer.
"""

import socket
import sys
from collections.abc import Callable
from functools import partial

from plantstore.changes import Change, Outcome
from plantstore.cli.wiring import make_parts, run_service
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.observe import ignore
from plantstore.plants import NewPlant
from plantstore.server.process import set_up_memory
from plantstore.settings import Settings
from plantstore.storage import open_store


class NoCommit(GroupCommit):
    """Answers at once and stores nothing."""

    async def submit(self, change: Change) -> Outcome:  # noqa: ARG002
        return Outcome.STORED


class NoRead(GroupRead):
    """Returns the same plant at once for every id."""

    async def find_plant(self, id_: int) -> NewPlant | None:
        return NewPlant(id_, "Abies balsamea (L.) Mill.", "Abies")


def serve(
    settings: Settings,
    make_writer: Callable[..., GroupCommit],
    make_reader: Callable[..., GroupRead],
) -> None:
    """Serve as `plantstore serve` does, without observers, and with another writer or reader."""
    set_up_memory()
    with socket.create_server((settings.host, settings.port)) as listener:
        store = open_store(settings.database)
        build = partial(
            make_parts,
            settings,
            store,
            observe=ignore,
            render_metrics=lambda: b"",
            make_writer=make_writer,
            make_reader=make_reader,
        )
        run_service(settings, store, build, ignore, listener)


def main(database: str, port: str) -> None:
    settings = Settings(database=f"sqlite:///{database}", port=int(port))
    serve(settings, NoCommit, NoRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
