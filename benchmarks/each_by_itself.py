"""The service without the group commit: one commit per request.

Each request takes a connection from a pool, as most services do: asynchronously, or on a thread
for each connection.
"""

import asyncio
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from psycopg_pool import AsyncConnectionPool, ConnectionPool

from noop import serve
from plantstore.changes import Change, Outcome
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.plants import NewPlant
from plantstore.settings import Settings
from plantstore.storage.postgres.primary import parse_url

CREATE = "INSERT INTO plants (id, name, tag) VALUES (%s, %s, %s) ON CONFLICT (id) DO NOTHING"


class EachAsynchronously(GroupCommit):
    """Stores each plant on an asynchronous connection."""

    pool: AsyncConnectionPool

    def use(self, conninfo: str, connections: int) -> None:
        self.pool = AsyncConnectionPool(
            conninfo,
            min_size=connections,
            max_size=connections,
            kwargs={"autocommit": True},
            open=False,
        )
        self.opened = asyncio.Lock()

    async def submit(self, change: Change) -> Outcome:
        assert isinstance(change, NewPlant)
        if self.pool.closed:
            async with self.opened:
                if self.pool.closed:
                    await self.pool.open(wait=True)
        async with self.pool.connection() as connection:
            made = await connection.execute(CREATE, (change.id, change.name, change.tag))
        return Outcome.STORED if made.rowcount else Outcome.ALREADY_STORED


class EachOnAThread(GroupCommit):
    """Stores each plant on a thread, with a synchronous connection."""

    def use(self, conninfo: str, connections: int) -> None:
        self.pool = ConnectionPool(
            conninfo,
            min_size=connections,
            max_size=connections,
            kwargs={"autocommit": True},
            open=True,
        )
        self.threads = ThreadPoolExecutor(connections)

    async def submit(self, change: Change) -> Outcome:
        assert isinstance(change, NewPlant)
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self.threads, self.store, change)

    def store(self, plant: NewPlant) -> Outcome:
        with self.pool.connection() as connection:
            made = connection.execute(CREATE, (plant.id, plant.name, plant.tag))
        return Outcome.STORED if made.rowcount else Outcome.ALREADY_STORED


def main(database: str, port: str, how: str, connections: str) -> None:
    writer_class: type[EachAsynchronously | EachOnAThread] = (
        EachAsynchronously if how == "async" else EachOnAThread
    )

    def make_writer(*args: Any, **kwargs: Any) -> GroupCommit:  # noqa: ANN401 (its own)
        writer = writer_class(*args, **kwargs)
        writer.use(parse_url(database), int(connections))
        return writer

    settings = Settings(database=database, port=int(port))
    serve(settings, make_writer, GroupRead)


if __name__ == "__main__":
    main(*sys.argv[1:])
