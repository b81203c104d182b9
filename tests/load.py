"""Clients that store plants for as long as a server is there."""

import http.client
import threading
from collections.abc import Callable

from plantstore.plants import NewPlant
from service import Client, Service

CLIENTS = 8


class Load:
    """Clients that each post one plant after the other until the server goes away."""

    def __init__(self, service: Service, token: str, first_id: int) -> None:
        self.sent: dict[int, NewPlant] = {}
        self.acknowledged: dict[int, NewPlant] = {}
        self.refused: list[int] = []
        self.changed = threading.Condition()
        self.threads = [
            threading.Thread(
                target=self.run, args=(service.client(token), first_id + number * 1_000_000)
            )
            for number in range(CLIENTS)
        ]
        for thread in self.threads:
            thread.start()

    def run(self, client: Client, id_: int) -> None:
        try:
            while True:
                id_ += 1
                plant = NewPlant(id_, f"Rosa × {id_}", f"{id_ % 7}" if id_ % 3 else None)
                self.sent[id_] = plant
                answer = client.post(plant)
                with self.changed:
                    if answer.status == 200:
                        self.acknowledged[id_] = plant
                    else:
                        self.refused.append(answer.status)
                    self.changed.notify_all()
        except (OSError, http.client.HTTPException):
            pass  # the server has gone away
        finally:
            client.close()

    def wait_until(self, condition: Callable[[], bool]) -> None:
        with self.changed:
            assert self.changed.wait_for(condition, timeout=60)

    def join(self) -> None:
        for thread in self.threads:
            thread.join(60)
            assert not thread.is_alive()
