"""Imports and exports by HTTP clients that are not ours: curl and httpx."""

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from plantstore.plants import NewPlant
from support.service import Service, stored_plants
from support.streams import HARD_PLANTS, NDJSON, NONE, rendered

PLANTS = sorted(
    [*HARD_PLANTS, *(NewPlant(id_, f"Rosa × {id_}") for id_ in range(100, 5_000))],
    key=lambda plant: plant.id,
)


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    with Service(tmp_path_factory.mktemp("senders")) as running:
        yield running


@pytest.fixture(scope="module")
def token(service: Service) -> str:
    return service.token()


def assert_imported(said: dict[str, Any], service: Service) -> None:
    """Assert that an import had all plants, of which an earlier one may have stored some."""
    assert said["stored"] + said["already_stored"] == len(PLANTS)
    assert said | {"stored": 0, "already_stored": 0} == NONE | {"errors": []}
    assert stored_plants(service.database) == {plant.id: plant for plant in PLANTS}


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

    assert_imported(json.loads(said), service)
    assert (tmp_path / f"plants.{form}").read_bytes() == content


def test_httpx_imports_a_generator_and_exports_a_stream(service: Service, token: str) -> None:
    content = rendered("ndjson", PLANTS)
    url = f"http://127.0.0.1:{service.port}/plants.ndjson"

    def pieces() -> Iterator[bytes]:
        for start in range(0, len(content), 10_000):
            yield content[start : start + 10_000]

    with httpx.Client(headers={"Authorization": f"Bearer {token}"}) as client:
        answer = client.post(url, content=pieces())
        with client.stream("GET", url, headers={"Accept": NDJSON}) as export:
            exported = b"".join(export.iter_bytes())

    assert answer.status_code == 200
    assert_imported(answer.json(), service)
    assert exported == content
