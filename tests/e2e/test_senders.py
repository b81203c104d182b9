"""Imports and exports by curl."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from plantstore.plants import NewPlant
from support.service import Service, stored_plants
from support.streams import HARD_PLANTS, NONE, rendered

PLANTS = sorted(
    [*HARD_PLANTS, *(NewPlant(id_, f"Rosa × {id_}") for id_ in range(100, 5_000))],
    key=lambda plant: plant.id,
)


def curl(folder: Path, token: str, *arguments: str, **options: Any) -> bytes:
    """Run curl in a folder; return its output. An error status is an error of curl."""
    done: subprocess.CompletedProcess[bytes] = subprocess.run(
        [
            *("curl", "--silent", "--show-error", "--fail-with-body", "--max-time", "60"),
            *("-H", f"Authorization: Bearer {token}", *arguments),
        ],
        cwd=folder,
        capture_output=True,
        timeout=120,
        check=True,
        **options,
    )
    return done.stdout


@pytest.mark.parametrize(
    ("form", "arguments"),
    [
        ("ndjson", ["--data-binary", "@file"]),
        ("csv", ["--data-binary", "@file"]),
        ("csv", ["--request", "POST", "-T", "file"]),
        ("ndjson", ["--request", "POST", "-T", "-"]),
        ("csv", ["--request", "POST", "-T", "-", "-H", "Expect: 100-continue"]),
        ("ndjson", ["--data-binary", "@file", "-H", "Expect: 100-continue"]),
        ("csv", ["--data-binary", "@file", "--http1.0"]),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else value,
)
def test_curl_imports_a_file_and_exports_it(
    service: Service, token: str, tmp_path: Path, form: str, arguments: list[str]
) -> None:
    content, url = rendered(form, PLANTS), f"http://127.0.0.1:{service.port}/plants.{form}"
    (tmp_path / "file").write_bytes(content)

    said = curl(tmp_path, token, url, *arguments, input=content)
    curl(tmp_path, token, url, "--compressed", "-OJ")

    # An earlier import may have stored some of them.
    counts = json.loads(said)
    assert counts["stored"] + counts["already_stored"] == len(PLANTS)
    assert counts | {"stored": 0, "already_stored": 0} == NONE | {"errors": []}
    assert stored_plants(service.database) == {plant.id: plant for plant in PLANTS}
    assert (tmp_path / f"plants.{form}").read_bytes() == content
