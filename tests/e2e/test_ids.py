"""Ids from several processes of the service."""

import contextlib
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.service import Service, stored_plants

CLIENTS = 6
ROUNDS = 10

# One client creates plants so far above the ids that are handed out that no other client gets them.
FAR = 1_000_000


@pytest.mark.engines("sqlite", "postgres")
def test_no_two_clients_of_several_processes_get_the_same_id(tmp_path: Path) -> None:
    barrier = threading.Barrier(CLIENTS)

    def ask_and_create(service: Service, token: str, number: int) -> list[range]:
        asked: list[range] = []
        greatest = 0
        with contextlib.closing(service.client(token)) as client:
            barrier.wait()
            for _ in range(ROUNDS):
                answer = client.send("POST", f"/ids?count={number % 3 + 1}").json
                ids = range(answer["first"], answer["last"] + 1)
                assert len(ids) == number % 3 + 1
                assert ids[0] > greatest
                greatest = ids[-1] + FAR * (number == 0)
                asked.append(ids)
                created = [client.post(NewPlant(id_, "a")).status for id_ in {*ids, greatest}]
                assert set(created) == {200}, "an id was not free"
        return asked

    with (
        Service(tmp_path, "--workers", "2") as one,
        Service(tmp_path) as another,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        token = one.token()
        running = [
            pool.submit(ask_and_create, (one, another)[number % 2], token, number)
            for number in range(CLIENTS)
        ]
        ranges = [ids for each in running for ids in each.result(120)]

    ordered = sorted(ranges, key=lambda ids: ids.start)
    assert len(ranges) == CLIENTS * ROUNDS
    assert all(earlier.stop <= later.start for earlier, later in pairwise(ordered))
    assert len(stored_plants(one.database)) == sum(map(len, ranges)) + ROUNDS
