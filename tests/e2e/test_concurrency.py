"""Concurrent changes and reads of the same plants by several processes."""

import multiprocessing
from concurrent.futures import ProcessPoolExecutor
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.histories import is_explained, play, wait_for_the_others
from support.service import Service

CLIENTS = 6
OPERATIONS = 300


@pytest.mark.engines("sqlite", "postgres")
def test_concurrent_changes_and_reads_are_linearizable(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    with (
        Service(tmp_path, "--workers", "2") as one,
        Service(tmp_path) as another,
        ProcessPoolExecutor(CLIENTS, spawn, wait_for_the_others, (spawn.Barrier(CLIENTS),)) as pool,
    ):
        token = one.token()
        played = [
            pool.submit(play, (one, another)[number % 2].port, token, number, OPERATIONS)
            for number in range(CLIENTS)
        ]
        history = [operation for one in played for operation in one.result(120)]
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


@pytest.mark.engines("sqlite", "postgres")
def test_each_process_reads_the_changes_that_another_process_acknowledged(tmp_path: Path) -> None:
    with Service(tmp_path) as one, Service(tmp_path) as another:
        token = one.token()
        writer, reader = one.client(token), another.client(token)

        for id_ in range(100):
            assert writer.post(NewPlant(id_, "a", "t")).status == 200
            assert reader.send("GET", f"/plants/{id_}").json == {"id": id_, "name": "a", "tag": "t"}
            listed = reader.send("GET", f"/plants?after={id_ - 1}&tag=t").json
            assert [plant["id"] for plant in listed] == [id_]
            if id_ % 2:
                assert writer.send("DELETE", f"/plants/{id_}").status == 204
                assert reader.send("GET", f"/plants/{id_}").status == 404

        writer.close()
        reader.close()
