"""Concurrent changes and reads of the same plants by several processes."""

import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.histories import is_explained, play
from support.service import Service

CLIENTS = 6
OPERATIONS = 80


@pytest.mark.engines("sqlite", "postgres")
def test_concurrent_changes_and_reads_are_linearizable_and_every_process_sees_them(
    tmp_path: Path,
) -> None:
    barrier = threading.Barrier(CLIENTS)
    with (
        Service(tmp_path, "--workers", "2") as one,
        Service(tmp_path) as another,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        token = one.token()
        played = [
            pool.submit(play, (one, another)[number % 2].client(token), barrier, number, OPERATIONS)
            for number in range(CLIENTS)
        ]
        history = [operation for each in played for operation in each.result(120)]

        with (
            one.client(token) as writer,
            another.client(token) as reader,
        ):
            for id_ in range(1000, 1020):
                assert writer.post(NewPlant(id_, "a", "seen")).status == 200
                listed = reader.send("GET", f"/plants?after={id_ - 1}&tag=seen").json
                assert [plant["id"] for plant in listed] == [id_]
    history.sort(key=attrgetter("called"))

    assert {(o.method, o.status) for o in history} == {
        *(("POST", status) for status in (200, 400)),
        *(("GET", status) for status in (200, 404)),
        *(("PUT", status) for status in (200, 201, 404, 412)),
        *(("PATCH", status) for status in (200, 404, 412)),
        *(("DELETE", status) for status in (204, 404, 412)),
    }
    for id_ in {operation.id for operation in history}:
        about = [operation for operation in history if operation.id == id_]
        assert any(later.called < earlier.answered for earlier, later in pairwise(about))
        assert is_explained(about)
