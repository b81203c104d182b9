"""Litestar with SQLAlchemy on SQLite: its own plugin, asynchronous, as its tutorial has it."""

import sys
from collections.abc import AsyncGenerator
from typing import Any

import uvicorn
from litestar import Litestar, post
from litestar.connection import ASGIConnection
from litestar.exceptions import ClientException, NotAuthorizedException
from litestar.handlers import BaseRouteHandler
from litestar.plugins.sqlalchemy import SQLAlchemyAsyncConfig, SQLAlchemyPlugin
from litestar.status_codes import HTTP_409_CONFLICT
from sqlalchemy import BigInteger, event
from sqlalchemy.exc import IntegrityError
from sqlalchemy.ext.asyncio import AsyncSession
from sqlalchemy.orm import DeclarativeBase, Mapped, mapped_column

DATABASE, PORT, TOKEN = sys.argv[1:]


class Base(DeclarativeBase):
    """The tables."""


class Plant(Base):
    """The table of plants, and what comes and goes."""

    __tablename__ = "plants"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    name: Mapped[str]
    tag: Mapped[str | None]


def check_token(connection: ASGIConnection, _handler: BaseRouteHandler) -> None:
    if connection.headers.get("Authorization") != f"Bearer {TOKEN}":
        raise NotAuthorizedException


async def provide_transaction(db_session: AsyncSession) -> AsyncGenerator[AsyncSession, None]:
    try:
        async with db_session.begin():
            yield db_session
    except IntegrityError as error:
        raise ClientException(status_code=HTTP_409_CONFLICT, detail=str(error)) from error


@post("/plants", guards=[check_token])
async def create_plant(data: Plant, transaction: AsyncSession) -> Plant:
    transaction.add(data)
    return data


database = SQLAlchemyAsyncConfig(
    connection_string=f"sqlite+aiosqlite:///{DATABASE}",
    metadata=Base.metadata,
    create_all=True,
)


@event.listens_for(database.get_engine().sync_engine, "connect")
def configure(connection: Any, _record: object) -> None:  # noqa: ANN401
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "busy_timeout = 30000"):
        connection.execute(f"PRAGMA {pragma}")


app = Litestar(
    [create_plant],
    dependencies={"transaction": provide_transaction},
    plugins=[SQLAlchemyPlugin(database)],
)

if __name__ == "__main__":
    uvicorn.run(app, port=int(PORT), log_level="error", access_log=False)
