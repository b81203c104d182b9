"""Imports and exports of many megabytes: the memory stays bounded, and other requests continue."""

import contextlib
import hashlib
import itertools
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from plantstore.api.imports import IMPORTS_MAX
from plantstore.formats import FORMATS
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.flood import peak_mib
from support.import_crashes import ImportCrashes
from support.load import Load
from support.postgres import wait_until
from support.service import Service, opened
from support.streams import (
    MEDIA_TYPES,
    NONE,
    chunk,
    import_once,
    import_together,
    line,
    lines,
    reset,
    streaming_head,
)
from support.wire import Wire

# An idle server uses about 60 MiB.
PEAK_MIB_MAX = 150

CRASHES = 30

LARGE_BODY_BYTES = 500_000_000
LARGE_ROW_BYTES = PLANT_BYTES_MAX - 100
LARGE_ROWS = 3_000  # more bytes than the memory that is allowed
EXPORTED_PLANTS = 1_000_000


def test_every_import_that_kill_9_interrupts_is_completed_by_sending_it_again(
    tmp_path: Path, soak: Any
) -> None:
    crashes = ImportCrashes(tmp_path)

    for _ in range(CRASHES):
        crashes.play_round()
    crashes.end()

    soak.add(
        "kill -9 during imports over HTTP",
        faults=len(crashes.kept),
        acknowledged=len(crashes.acknowledged),
        lost=len(crashes.lost),
    )
    assert crashes.lost == set()
    assert len(set(crashes.kept)) > 5, "the kills were not at different moments"


def test_single_creates_continue_beside_an_import_of_500_mb_and_the_memory_is_bounded(
    tmp_path: Path, soak: Any
) -> None:
    row_bytes = len(line(10**9, "a" * 1_000))
    rows = LARGE_BODY_BYTES // row_bytes
    body = (lines(first, first + 99, 1_000) for first in range(10**9, 10**9 + rows, 100))
    rows = len(range(0, rows, 100)) * 100

    with Service(tmp_path) as service:
        token = service.token()
        load = Load(service, token, -100_000_000)
        answer = import_once(service, token, body)
        load.stop()
        peak = peak_mib(service)
        with opened(service.database) as store:
            stored = store.count_plants()

    acknowledged = rows + len(load.acknowledged)
    soak.add(
        "an import of 500 MB beside single creates",
        faults=rows,
        acknowledged=acknowledged,
        lost=acknowledged - stored,
    )
    assert answer.json == NONE | {"stored": rows, "errors": []}
    assert load.refused == []
    assert stored == acknowledged
    assert peak <= PEAK_MIB_MAX, f"the server had {peak} MiB"


def test_an_import_without_end_takes_bounded_memory_and_its_place_is_free_after_it(
    tmp_path: Path,
) -> None:
    """It ends after as many bytes as the other test sends. All rows are the same."""
    piece = chunk(lines(1, 1_000, 1_000))
    with Service(tmp_path, "--access-log") as service:
        token = service.token()
        load = Load(service, token, 100_000_000)
        for _ in range(2):
            wire = Wire(service.port)
            wire.send(streaming_head(token))
            for _ in range(LARGE_BODY_BYTES // len(piece)):
                wire.send(piece)
            reset(wire)
        wait_until(lambda: sum('"status": 499' in line for line in service.log) == 2)
        load.stop()
        tokens = [token, service.token(name="other")]  # one token has no more than 24 places
        statuses = import_together(service, tokens * (IMPORTS_MAX // 2))
        peak = peak_mib(service)

    assert load.refused == []
    assert len(load.acknowledged) > 1_000
    assert statuses == [200] * IMPORTS_MAX
    assert peak <= PEAK_MIB_MAX, f"the server had {peak} MiB"


@pytest.mark.parametrize(("form", "character"), [("ndjson", "a"), ("csv", "é"), ("csv", "🌱")])
def test_a_file_of_the_largest_rows_is_stored_and_the_memory_is_bounded(
    tmp_path: Path, form: str, character: str
) -> None:
    name = character * (LARGE_ROW_BYTES // len(character.encode()))

    with Service(tmp_path) as service:
        file = pieces_of(form, (NewPlant(id_, name) for id_ in range(LARGE_ROWS)))
        answer = import_once(service, service.token(), file, MEDIA_TYPES[form])
        peak = peak_mib(service)
    with contextlib.closing(sqlite3.connect(tmp_path / "plants.db")) as database:
        stored = database.execute("SELECT count(*) FROM plants WHERE name = ?", (name,)).fetchone()

    assert answer.json == NONE | {"stored": LARGE_ROWS, "errors": []}
    assert stored == (LARGE_ROWS,)
    assert peak <= PEAK_MIB_MAX, f"the server had {peak} MiB"


def test_a_million_plants_are_imported_and_exported_with_bounded_memory(tmp_path: Path) -> None:
    def file(form: str) -> Iterator[bytes]:
        tags = ["0", "1", None]
        return pieces_of(
            form,
            (NewPlant(id_, f"Rosa × {id_}", tags[id_ % 3]) for id_ in range(EXPORTED_PLANTS)),
        )

    with Service(tmp_path) as service:
        token = service.token()
        answer = import_once(service, token, file("csv"), MEDIA_TYPES["csv"])
        exported = {form: digest(export(service, token, form)) for form in MEDIA_TYPES}
        peak = peak_mib(service)

    assert answer.json == NONE | {"stored": EXPORTED_PLANTS, "errors": []}
    assert exported == {form: digest(file(form)) for form in MEDIA_TYPES}
    assert peak <= PEAK_MIB_MAX, f"the server had {peak} MiB"


def pieces_of(form: str, plants: Iterator[NewPlant]) -> Iterator[bytes]:
    """Yield a file of plants in pieces."""
    yield FORMATS[form].head
    while page := list(itertools.islice(plants, 100)):
        yield FORMATS[form].render(page)


def export(service: Service, token: str, form: str) -> Iterator[bytes]:
    with contextlib.closing(service.client(token)) as client:
        client.connection.request("GET", f"/plants.{form}", headers=client.headers)
        answer = client.connection.getresponse()
        assert answer.status == 200
        yield from iter(lambda: answer.read(1_000_000), b"")


def digest(pieces: Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()
