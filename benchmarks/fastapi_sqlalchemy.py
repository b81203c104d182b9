"""A typical implementation of the same service: FastAPI, SQLAlchemy and SQLite.

It follows their tutorials, and is as durable as our service: WAL and a full sync, one
commit per request. `POST /plants/many` takes a JSON array, as PostgREST does, and inserts it with
one `executemany`.
"""

import sys
from collections.abc import Iterator
from typing import Annotated, Any

import uvicorn
from fastapi import Depends, FastAPI, HTTPException
from fastapi.security import HTTPAuthorizationCredentials, HTTPBearer
from pydantic import BaseModel
from sqlalchemy import BigInteger, String, create_engine, event, insert
from sqlalchemy.orm import DeclarativeBase, Mapped, Session, mapped_column, sessionmaker

DATABASE, PORT, TOKEN = sys.argv[1:]

engine = create_engine(f"sqlite:///{DATABASE}")
new_session = sessionmaker(engine)
app = FastAPI()


@event.listens_for(engine, "connect")
def configure(connection: Any, _record: object) -> None:  # noqa: ANN401
    for pragma in ("journal_mode = WAL", "synchronous = FULL", "busy_timeout = 30000"):
        connection.execute(f"PRAGMA {pragma}")


class Base(DeclarativeBase):
    """The tables."""


class PlantRow(Base):
    """The table of plants."""

    __tablename__ = "plants"

    id: Mapped[int] = mapped_column(BigInteger, primary_key=True)
    name: Mapped[str] = mapped_column(String)
    tag: Mapped[str | None] = mapped_column(String)


class NewPlant(BaseModel):
    """The body of a request."""

    id: int
    name: str
    tag: str | None = None


class Plant(BaseModel):
    """The body of a response."""

    name: str
    tag: str | None = None


def session() -> Iterator[Session]:
    with new_session() as opened:
        yield opened


def check_token(
    credentials: Annotated[HTTPAuthorizationCredentials, Depends(HTTPBearer())],
) -> None:
    if credentials.credentials != TOKEN:
        raise HTTPException(401)


@app.post("/plants", dependencies=[Depends(check_token)], response_model_exclude_none=True)
def create_plant(plant: NewPlant, db: Annotated[Session, Depends(session)]) -> Plant:
    db.add(PlantRow(**plant.model_dump()))
    db.commit()
    return Plant(name=plant.name, tag=plant.tag)


@app.post("/plants/many", dependencies=[Depends(check_token)], status_code=201)
def create_plants(plants: list[NewPlant], db: Annotated[Session, Depends(session)]) -> None:
    db.execute(insert(PlantRow), [plant.model_dump() for plant in plants])
    db.commit()


if __name__ == "__main__":
    Base.metadata.create_all(engine)
    uvicorn.run(app, port=int(PORT), log_level="error", access_log=False)
