"""Imports with a token whose rate is limited, against the real server.

The rates are per day, so that no test depends on how long it takes.
"""

import contextlib
from pathlib import Path

from plantstore.errors import ErrorCode
from plantstore.plants import NewPlant
from support.service import Service, stored_plants
from support.streams import NONE, lines, send


def test_an_import_may_have_as_many_rows_as_its_token_has_uses(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--rate-per-token", "8/day") as service,
        contextlib.closing(service.client(service.token())) as client,
    ):
        imported = send(client, lines(1, 8))
        refused = client.post(NewPlant(9, "a"))

    assert (imported.status, imported.json) == (200, NONE | {"stored": 8, "errors": []})
    assert (refused.status, refused.json["error"]) == (429, ErrorCode.RATE_EXCEEDED)


def test_the_batches_of_an_import_are_half_of_the_smallest_rate(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--rate-per-token", "12/day;8/2 days") as service,
        contextlib.closing(service.client(service.token())) as client,
    ):
        client.post(NewPlant(100, "a"))
        answer = send(client, lines(1, 8))

    assert (answer.status, answer.json["lines_stored_through"]) == (429, 4)
    assert stored_plants(service.database).keys() == {1, 2, 3, 4, 100}


def test_batches_do_not_grow_beyond_half_of_the_rate(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--rate-per-token", "8/day") as service,
        contextlib.closing(service.client(service.token())) as client,
    ):
        answer = send(client, lines(1, 12))

    assert (answer.status, answer.json["lines_stored_through"]) == (429, 8)
    assert stored_plants(service.database).keys() == set(range(1, 9))


def test_no_row_after_a_batch_that_is_refused_is_stored(tmp_path: Path) -> None:
    with (
        Service(tmp_path, "--rate-per-token", "10/day") as service,
        contextlib.closing(service.client(service.token())) as client,
    ):
        client.post(NewPlant(100, "a"))
        answer = send(client, lines(1, 11))  # batches of 5, 5 and 1; 8 rows are allowed

    assert (answer.status, answer.json["lines_stored_through"]) == (429, 5)
    assert stored_plants(service.database).keys() == {1, 2, 3, 4, 5, 100}
