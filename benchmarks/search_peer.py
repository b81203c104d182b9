"""Datasette with the rows of a database of this service, and with its full-text search."""

import contextlib
import dataclasses
import http.client
import json
import sqlite3
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

from harness import Server, free_port, running
from peer import DATABASE, said
from python_peers import DATASETTE, PYTHON

# The tables have 100 plants on a page, as ours have.
OURS = "/plants?q=%s"
THEIRS = f"/{Path(DATABASE).stem}/plants.json?_searchmode=raw&_size=100&_search=%s"


def as_prefixes(query: str) -> str:
    """Return the FTS5 query for words that begin with the words of a query."""
    return " ".join(f"{word}*" for word in query.split())


@contextlib.contextmanager
def searching_datasette(database: Path) -> Iterator[Server]:
    """Run Datasette on a copy of the plants until the block ends."""
    with tempfile.TemporaryDirectory() as name:
        folder, port = Path(name), free_port()
        token = DATASETTE.prepare(folder)
        _copy(database, folder / DATABASE)
        with running(DATASETTE.command(folder, port, token), port, token) as server:
            yield server


def require_same_plants(ours: Server, theirs: Server, queries: list[str]) -> None:
    """Compare what both find.

    Raises:
        RuntimeError: the plants on the first page differ.

    """
    for query in queries:
        found = [plant["id"] for plant in _get(ours, OURS % quote(query))]
        answer = _get(theirs, THEIRS % quote(as_prefixes(query)))
        expected = [row["id"] for row in answer["rows"]]
        if found != expected:
            raise RuntimeError(f"{query!r}: {found} instead of {expected}")


def _copy(database: Path, into: Path) -> None:
    with contextlib.closing(sqlite3.connect(into)) as connection:
        connection.execute("ATTACH ? AS ours", (str(database),))
        connection.execute("INSERT INTO plants SELECT id, name, tag FROM ours.plants")
        connection.commit()
    _index_words(into)


def _prepare(folder: Path) -> str:
    token = DATASETTE.prepare(folder)
    _index_words(folder / DATABASE)
    return token


def _index_words(database: Path) -> None:
    tool = str(PYTHON.with_name("sqlite-utils"))
    said(tool, "enable-fts", str(database), "plants", "name", "--fts5", "--create-triggers")


SEARCHED_DATASETTE = dataclasses.replace(
    DATASETTE, name="Datasette with its full-text index", prepare=_prepare
)


def _get(server: Server, target: str) -> Any:  # noqa: ANN401 (what JSON holds)
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    connection.request("GET", target, headers={"Authorization": f"Bearer {server.token}"})
    body = connection.getresponse().read()
    connection.close()
    return json.loads(body)
