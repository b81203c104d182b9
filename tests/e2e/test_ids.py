"""Ids from several processes of the service, also from processes that are killed."""

import contextlib
import http.client
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from operator import attrgetter
from pathlib import Path

import pytest

from plantstore.plants import NewPlant
from support.crashes import kill_all
from support.service import Client, Service, stored_plants

CLIENTS = 6
ROUNDS = 10
KILLS = 2

# One client creates plants so far above the ids that are handed out that no other client gets them.
FAR = 1_000_000


def ask(client: Client, count: int) -> range:
    """Return ids from the service."""
    answer = client.send("POST", f"/ids?count={count}")
    assert answer.status == 200, answer.body
    ids = range(answer.json["first"], answer.json["last"] + 1)
    assert len(ids) == count
    return ids


def create(client: Client, id_: int) -> None:
    """Create a plant under an id that must be free."""
    answer = client.post(NewPlant(id_, "a"))
    assert answer.status == 200, answer.body


def are_disjoint(ranges: list[range]) -> bool:
    """Return whether no id is in two of these ranges."""
    ordered = sorted(ranges, key=attrgetter("start"))
    return all(earlier.stop <= later.start for earlier, later in pairwise(ordered))


@pytest.mark.engines("sqlite", "postgres")
def test_no_two_clients_of_several_processes_get_the_same_id(tmp_path: Path) -> None:
    barrier = threading.Barrier(CLIENTS)

    def ask_and_create(service: Service, token: str, number: int) -> list[range]:
        asked: list[range] = []
        greatest = 0
        with contextlib.closing(service.client(token)) as client:
            barrier.wait()
            for _ in range(ROUNDS):
                ids = ask(client, number % 3 + 1)
                assert ids[0] > greatest
                greatest = ids[-1]
                asked.append(ids)
                for id_ in ids:
                    create(client, id_)
                if number == 0:
                    greatest += FAR
                    create(client, greatest)
        return asked

    with (
        Service(tmp_path, "--workers", "2") as one,
        Service(tmp_path) as another,
        ThreadPoolExecutor(CLIENTS) as pool,
    ):
        token = one.token()
        created = [
            pool.submit(ask_and_create, (one, another)[number % 2], token, number)
            for number in range(CLIENTS)
        ]
        ranges = [ids for each in created for ids in each.result(120)]

    assert len(ranges) == CLIENTS * ROUNDS
    assert are_disjoint(ranges)
    assert len(stored_plants(one.database)) == sum(map(len, ranges)) + ROUNDS


def test_no_id_is_handed_out_twice_although_the_service_is_killed(tmp_path: Path) -> None:
    ranges: list[range] = []
    changed = threading.Condition()
    token = ""

    def ask_until_the_end(client: Client, count: int) -> None:
        try:
            while True:
                ids = ask(client, count)
                with changed:
                    ranges.append(ids)
                    changed.notify_all()
        except (OSError, http.client.HTTPException):
            client.close()  # the service was killed

    def wait_for(answers: int) -> None:
        with changed:
            assert changed.wait_for(lambda: len(ranges) >= answers, timeout=60)

    for number in range(KILLS):
        with Service(tmp_path) as service, ThreadPoolExecutor(CLIENTS) as pool:
            token = token or service.token()
            clients = [service.client(token) for _ in range(CLIENTS)]
            asking = [pool.submit(ask_until_the_end, each, n + 1) for n, each in enumerate(clients)]
            wait_for(50 * (number + 1))
            kill_all(service)
            for each in asking:
                each.result(60)

    assert len(ranges) >= 50 * KILLS
    assert are_disjoint(ranges)
