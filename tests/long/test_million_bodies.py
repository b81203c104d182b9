"""A million valid and invalid bodies against one real server."""

import json
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from pathlib import Path
from typing import Any

from plantstore.errors import ErrorCode
from plantstore.plants import PLANT_BYTES_MAX, NewPlant
from support.bodies import JSON_TYPE, Sending, read_plainly, sendings
from support.service import Service, stored_plants
from support.wire import Wire

CONNECTIONS = 16

# Requests that a client sends before it reads the first response. Their responses must fit
# into the buffers of a connection; otherwise both ends would wait for each other.
AHEAD = 50

INVALID = {ErrorCode.NOT_JSON, ErrorCode.INVALID_PLANT, ErrorCode.UNSTORABLE_TEXT}


class Flood:
    """Sends the bodies of a seed to a service on a few persistent connections.

    Each response is compared with the reference parser's result for its body. `stored` has
    the plants that must be stored by the responses. `answers` counts the responses by status
    and error number.
    """

    def __init__(self, service: Service, seed: int, number: int) -> None:
        self.stored: dict[int, NewPlant] = {}
        self.taken: list[NewPlant] = []
        self.answers: Counter[tuple[int, int]] = Counter()
        self._port = service.port
        self._token = service.token(name=f"seed {seed}")
        shares = [number // CONNECTIONS] * CONNECTIONS
        shares[0] += number % CONNECTIONS
        with ThreadPoolExecutor(CONNECTIONS) as pool:
            counts = pool.map(self._run, range(seed, seed + CONNECTIONS), shares)
            for count in counts:
                self.answers += count
        for plant in self.taken:
            assert self.stored[plant.id] != plant, "the refused plant equals the stored plant"

    def _run(self, seed: int, number: int) -> Counter[tuple[int, int]]:
        bodies = sendings(seed, number)
        count: Counter[tuple[int, int]] = Counter()
        with Wire(self._port) as wire:
            while batch := list(islice(bodies, AHEAD)):
                wire.send(b"".join(body.request(self._token) for body in batch))
                for sending in batch:
                    status, _, body = wire.answer()
                    answer = json.loads(body)
                    count[status, answer.get("error", 0)] += 1
                    self._judge(sending, status, answer)
            wire.socket.shutdown(socket.SHUT_WR)
            assert wire.is_closed(), "there are more responses than requests"
        return count

    def _judge(self, sending: Sending, status: int, answer: dict[str, Any]) -> None:
        plant, error = read_plainly(sending.body), answer.get("error")
        told = f"{sending} was answered with {status} {answer}"
        if sending.media_type != JSON_TYPE:
            assert (status, error) == (415, ErrorCode.UNSUPPORTED_MEDIA_TYPE), told
        elif len(sending.body) > PLANT_BYTES_MAX:
            assert (status, error) == (413, ErrorCode.BODY_TOO_LARGE), told
        elif plant is None:
            assert status == 400, told
            assert error in INVALID, told
        elif status == 400:
            assert error == ErrorCode.ID_TAKEN, told
            self.taken.append(plant)
        else:
            tag = {} if plant.tag is None else {"tag": plant.tag}
            assert (status, answer) == (200, {"name": plant.name} | tag), told
            assert self.stored.setdefault(plant.id, plant) == plant, told


BODIES = 1_000_000

# An idle server uses about 60 MiB. The rest is for the queue and for SQLite, which are bounded.
PEAK_MIB_MAX = 160


def test_a_million_bodies_are_answered_as_the_reference_parser_predicts(
    tmp_path: Path, soak: Any
) -> None:
    with Service(tmp_path) as service:
        flood = Flood(service, 1, BODIES)
        peak = service.peak_mib()

    assert flood.answers.total() == BODIES
    assert {status for status, _ in flood.answers} == {200, 400, 413, 415}
    stored = stored_plants(service.database)
    missing = flood.stored.keys() - stored.keys()
    soak.add(
        "a million request bodies, valid and invalid",
        faults=BODIES - sum(count for (status, _), count in flood.answers.items() if status == 200),
        acknowledged=len(flood.stored),
        lost=len(missing),
    )
    assert stored == flood.stored
    assert not service.has_logged("failed")
    assert peak < PEAK_MIB_MAX, f"the server had {peak:.0f} MiB"
