"""`POST /plants` with CSV as spreadsheets and people write it, against the real server."""

import contextlib
from collections.abc import Iterator

import pytest

from plantstore.changes import Deletion
from support.csv_cases import CSV_CASES, Case
from support.service import Client, Service, stored_plants


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Service, Client]]:
    """Return a service that many imports share, and a client."""
    with (
        Service(tmp_path_factory.mktemp("shared")) as service,
        contextlib.closing(service.client(service.token())) as client,
    ):
        yield service, client


@pytest.mark.parametrize("case", CSV_CASES, ids=lambda case: case.name)
def test_the_service_reads_csv_by_the_rules_of_the_command(
    shared: tuple[Service, Client], case: Case
) -> None:
    service, client = shared
    service.change(*[Deletion(id_) for id_ in stored_plants(service.database)])

    answer = client.send("POST", "/plants.csv", case.content, {"Content-Type": "text/csv"})

    assert stored_plants(service.database) == {plant.id: plant for plant in case.plants}
    assert answer.json.get("message", "") == case.error
    refused = [error["line"] for error in answer.json.get("errors", [])]
    assert refused == [line for line, _ in case.refused]
    assert answer.json.get("warnings", []) == ([case.warning] if case.warning else [])
