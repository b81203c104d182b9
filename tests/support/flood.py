"""Clients that pipeline many requests and check each response."""

import json
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from itertools import islice
from typing import TYPE_CHECKING, Any

from plantstore.errors import ErrorCode
from plantstore.plants import PLANT_BYTES_MAX
from support.bodies import JSON_TYPE, Sending, read_plainly, sendings
from support.service import Service
from support.wire import Wire

if TYPE_CHECKING:
    from plantstore.plants import NewPlant

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
