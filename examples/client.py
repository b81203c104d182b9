"""A client of the Plant Store with httpx, to copy from: `python client.py http://HOST:PORT FILE`.

The variable PLANTSTORE_TOKEN has a token with the scopes plants:create and plants:read. The program
imports the file, creates a plant, and prints all plants.
"""

import os
import random
import sys
import time
from collections.abc import Iterator
from typing import Any

import httpx

# Without Retry-After, the waits are about 0.5, 1, 2, 4, 8 and 16 seconds.
TRIES = 7
RETRY_AFTER_SECONDS_MAX = 60


class PlantStore:
    """Every method may be called again after any error: nothing is stored twice."""

    def __init__(self, url: str, token: str) -> None:
        headers = {"Authorization": f"Bearer {token}"}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=60)

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Send a request. Wait and send it again if the service is busy or away for a moment."""
        for tried in range(TRIES):
            is_last = tried == TRIES - 1
            wait = random.uniform(0.25, 0.75) * 2**tried
            try:
                answer = self._http.request(method, path, **options)
            except httpx.TransportError:
                if is_last:
                    raise
            else:
                if answer.status_code not in (429, 503) or is_last:
                    break
                wait += min(float(answer.headers.get("Retry-After", 0)), RETRY_AFTER_SECONDS_MAX)
            time.sleep(wait)
        if answer.is_error:
            message = f"{method} {path}: {answer.status_code} {answer.text}"
            raise httpx.HTTPStatusError(message, request=answer.request, response=answer)
        return answer

    def create(self, id_: int, name: str, tag: str | None = None) -> None:
        plant = {"id": id_, "name": name} | ({} if tag is None else {"tag": tag})
        self.send("POST", "/plants", json=plant)

    def plants(self, **query: str) -> Iterator[dict[str, Any]]:
        """Yield all plants page by page; `query` may have `q` and `tag`."""
        answer = self.send("GET", "/plants", params=query)
        yield from answer.json()
        while "next" in answer.links:
            answer = self.send("GET", answer.links["next"]["url"])
            yield from answer.json()

    def import_csv(self, content: bytes) -> dict[str, Any]:
        counts: dict[str, Any] = self.send("POST", "/plants.csv", content=content).json()
        return counts


if __name__ == "__main__":
    if len(sys.argv) != 3 or "PLANTSTORE_TOKEN" not in os.environ:
        sys.exit(__doc__)
    store = PlantStore(sys.argv[1], os.environ["PLANTSTORE_TOKEN"])
    with open(sys.argv[2], "rb") as file:
        print(store.import_csv(file.read()))
    store.create(1_000_001, "Abies balsamea (L.) Mill.", "Abies")
    for plant in store.plants():
        print(plant["id"], plant["name"], plant.get("tag", ""))
