"""Imports and exports of many megabytes: the memory stays bounded, and other requests continue."""

import contextlib
import hashlib
import itertools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from plantstore.api.imports import IMPORTS_MAX
from plantstore.plants import NewPlant
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
    line,
    lines,
    rendered,
    reset,
    streaming_head,
)
from support.wire import Wire

# An idle server uses about 60 MiB.
PEAK_MIB_MAX = 150

CRASHES = 30

LARGE_BODY_BYTES = 500_000_000
LARGE_ROW_BYTES = 900_000
LARGE_ROWS = 500
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
        with ThreadPoolExecutor(IMPORTS_MAX) as pool:
            barrier = threading.Barrier(IMPORTS_MAX)

            def import_together(number: int) -> int:
                def pieces() -> Iterator[bytes]:
                    yield line(1_000 + number)
                    barrier.wait(60)
                    yield line(2_000 + number)

                return import_once(service, tokens[number % 2], pieces()).status

            statuses = list(pool.map(import_together, range(IMPORTS_MAX)))
        peak = peak_mib(service)

    assert load.refused == []
    assert len(load.acknowledged) > 1_000
    assert statuses == [200] * IMPORTS_MAX
    assert peak <= PEAK_MIB_MAX, f"the server had {peak} MiB"


@pytest.mark.parametrize("form", ["ndjson", "csv"])
@pytest.mark.parametrize("character", ["a", "é", "🌱"])
def test_rows_of_900_kb_are_all_stored_and_the_memory_is_bounded(
    tmp_path: Path, form: str, character: str
) -> None:
    name = character * (LARGE_ROW_BYTES // len(character.encode()))

    def pieces() -> Iterator[bytes]:
        yield rendered(form, [])
        for id_ in range(LARGE_ROWS):
            yield rendered(form, [NewPlant(id_, name)]).removeprefix(rendered(form, []))

    with Service(tmp_path) as service:
        answer = import_once(service, service.token(), pieces(), MEDIA_TYPES[form])
        peak = peak_mib(service)
        with opened(service.database) as store:
            sizes = {len(plant.name) for page in store.scan_plants() for plant in page}
            stored = store.count_plants()

    assert answer.json == NONE | {"stored": LARGE_ROWS, "errors": []}
    assert (stored, sizes) == (LARGE_ROWS, {len(name)})
    assert peak <= PEAK_MIB_MAX, f"the server had {peak} MiB"


def test_a_million_plants_are_imported_and_exported_with_bounded_memory(tmp_path: Path) -> None:
    def plants() -> Iterator[NewPlant]:
        for id_ in range(EXPORTED_PLANTS):
            yield NewPlant(id_, f"Rosa × {id_}", f"{id_ % 7}" if id_ % 3 else None)

    def pieces(form: str) -> Iterator[bytes]:
        yield rendered(form, [])
        some = plants()
        while page := list(itertools.islice(some, 1_000)):
            yield rendered(form, page).removeprefix(rendered(form, []))

    with Service(tmp_path) as service:
        token = service.token()
        answer = import_once(service, token, pieces("csv"), MEDIA_TYPES["csv"])
        exported = {form: digest_of_export(service, token, form) for form in MEDIA_TYPES}
        peak = peak_mib(service)

    assert answer.json == NONE | {"stored": EXPORTED_PLANTS, "errors": []}
    assert exported == {form: digest(pieces(form)) for form in MEDIA_TYPES}
    assert peak <= PEAK_MIB_MAX, f"the server had {peak} MiB"


def digest(pieces: Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def digest_of_export(service: Service, token: str, form: str) -> str:
    with contextlib.closing(service.client(token)) as client:
        client.connection.request("GET", f"/plants.{form}", headers=client.headers)
        answer = client.connection.getresponse()
        assert answer.status == 200
        return digest(iter(lambda: answer.read(1_000_000), b""))
