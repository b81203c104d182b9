"""Clients that create plants until the server stops."""

import contextlib
import http.client
import threading

from plantstore.plants import NewPlant
from support.postgres import wait_until
from support.service import Client, Service

CLIENTS = 8


class Load:
    """Clients that each create one plant after the other until the server or the test ends."""

    def __init__(self, service: Service, token: str, first_id: int) -> None:
        self.sent: dict[int, NewPlant] = {}
        self.acknowledged: dict[int, NewPlant] = {}
        self.refused: list[int] = []
        self._is_over = False
        self._threads = [
            threading.Thread(target=self._run, args=(service.client(token), first_id + 10**6 * n))
            for n in range(CLIENTS)
        ]
        for thread in self._threads:
            thread.start()

    def _run(self, client: Client, id_: int) -> None:
        with (
            client,
            contextlib.suppress(OSError, http.client.HTTPException),  # the server has stopped
        ):
            while not self._is_over:
                id_ += 1
                plant = NewPlant(id_, f"Rosa × {id_}", f"{id_ % 7}" if id_ % 3 else None)
                self.sent[id_] = plant
                status = client.post(plant).status
                if status == 200:
                    self.acknowledged[id_] = plant
                else:
                    self.refused.append(status)

    def wait_for_more(self, plants: int = 100, seconds: float = 60) -> None:
        """Return when this many more plants are acknowledged."""
        enough = len(self.acknowledged) + plants
        wait_until(lambda: len(self.acknowledged) >= enough, seconds)

    def stop(self) -> None:
        """Stop sending; return when every request is answered."""
        self._is_over = True
        self.join()

    def join(self) -> None:
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
