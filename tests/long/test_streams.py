"""Imports and exports of many megabytes: the memory stays bounded, and other requests continue."""

import hashlib
import itertools
import re
import sys
from collections.abc import Iterator
from pathlib import Path

from plantstore.formats import FORMATS
from plantstore.plants import NewPlant
from support.command import output_of
from support.load import Load
from support.service import Service, opened
from support.streams import (
    MEDIA_TYPES,
    NONE,
    import_once,
    line,
    lines,
)

# An idle server uses about 60 MiB.
PEAK_MIB_MAX = 150

LARGE_BODY_BYTES = 500_000_000
EXPORTED_PLANTS = 1_000_000


def test_single_creates_continue_beside_an_import_of_500_mb(tmp_path: Path) -> None:
    row_bytes = len(line(10**9, "a" * 1_000))
    rows = LARGE_BODY_BYTES // row_bytes
    body = (lines(first, first + 99, 1_000) for first in range(10**9, 10**9 + rows, 100))
    rows = len(range(0, rows, 100)) * 100

    with Service(tmp_path) as service:
        token = service.token()
        load = Load(service, token, -100_000_000)
        answer = import_once(service, token, body)
        load.stop()
        peak = service.peak_mib()
        with opened(service.database) as store:
            stored = store.count_plants()

    assert answer.json == NONE | {"stored": rows, "errors": []}
    assert load.refused == []
    assert stored == rows + len(load.acknowledged)
    assert peak <= PEAK_MIB_MAX, f"the server had {peak:.0f} MiB"


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
        peak = service.peak_mib()

    assert answer.json == NONE | {"stored": EXPORTED_PLANTS, "errors": []}
    assert exported == {form: digest(file(form)) for form in MEDIA_TYPES}
    assert peak <= PEAK_MIB_MAX, f"the server had {peak:.0f} MiB"


def pieces_of(form: str, plants: Iterator[NewPlant]) -> Iterator[bytes]:
    """Yield a file of plants in pieces."""
    yield FORMATS[form].head
    while page := list(itertools.islice(plants, 100)):
        yield FORMATS[form].render(page)


def export(service: Service, token: str, form: str) -> Iterator[bytes]:
    with service.client(token) as client:
        client.connection.request("GET", f"/plants.{form}", headers=client.headers)
        answer = client.connection.getresponse()
        assert answer.status == 200
        yield from iter(lambda: answer.read(1_000_000), b"")


def digest(pieces: Iterator[bytes]) -> str:
    found = hashlib.sha256()
    for piece in pieces:
        found.update(piece)
    return found.hexdigest()


def peak_kib(folder: Path, *arguments: str) -> int:
    """Run `plantstore` in a folder; return its peak resident memory in KiB.

    The process reads its own VmHWM. The value of `wait4` includes memory of the parent.
    """
    program = (
        "import sys; from plantstore.cli import main; assert main() == 0; "
        "print(open('/proc/self/status').read())"
    )
    said = output_of(sys.executable, "-c", program, *arguments, cwd=folder)
    [peak] = re.findall(r"VmHWM:\s*(\d+) kB", said)
    return int(peak)


def test_the_memory_of_a_transfer_by_the_command_does_not_grow_with_the_file(
    tmp_path: Path,
) -> None:
    peaks = []
    # The small file is large enough to fill SQLite's caches, which have a fixed size.
    for number in (300_000, 900_000):
        file = pieces_of("csv", (NewPlant(id_, f"Rosa × {id_}") for id_ in range(number)))
        (tmp_path / "plants.csv").write_bytes(b"".join(file))
        peaks.append(peak_kib(tmp_path, "import", "plants.csv"))
        peaks.append(peak_kib(tmp_path, "export", "plants.csv", "--force"))

    small_import, small_export, large_import, large_export = peaks
    assert large_import < small_import + 6_000
    assert large_export < small_export + 6_000
