"""The order of the batches of one import."""

import asyncio
import threading
import time

from falcon.asgi import Request
from falcon.testing import create_asgi_req

from plantstore.api.auth import Gate
from plantstore.api.imports import _Sink
from plantstore.api.rates import RatePerToken
from plantstore.errors import RateExceededError
from plantstore.imports import Conflict
from plantstore.plants import NewPlant
from plantstore.storage.memory import MemoryStore
from plantstore.tokens import SCOPES, TokenRecord, digest, mint
from plantstore.writer import GroupCommit


class SlowLookups(MemoryStore):
    """Answers the lookup of a token only when the test allows it."""

    def __init__(self) -> None:
        super().__init__()
        self.may_answer = threading.Event()

    def find_token(self, digest: bytes) -> TokenRecord | None:
        assert self.may_answer.wait(30)
        return super().find_token(digest)


def test_a_batch_that_begins_before_the_one_before_it_is_refused_is_not_stored() -> None:
    store = SlowLookups()
    token = mint()
    store.add_token(TokenRecord("test", digest(token), frozenset(SCOPES), 0))
    gate = Gate(store, time.time, time.monotonic, RatePerToken("4/day"), lambda _: None)
    too_many = [NewPlant(id_, "a") for id_ in range(6)]
    results: list[object] = []

    async def main() -> None:
        writer = GroupCommit(
            store,
            queue_plants_max=10,
            queue_characters_max=10,
            batch_plants_max=10,
            observe=lambda _: None,
        )
        writer.start()
        sink = _Sink(gate, writer, request(token), Conflict.REFUSE)
        batches = [
            asyncio.create_task(sink.store(batch)) for batch in (too_many, [NewPlant(7, "a")])
        ]
        await asyncio.sleep(0)  # both begin; the first one waits for the lookup of the token
        store.may_answer.set()
        results.extend(await asyncio.gather(*batches, return_exceptions=True))
        await writer.close()

    asyncio.run(asyncio.wait_for(main(), 30))

    assert [type(result) for result in results] == [RateExceededError] * 2
    assert store.plants == {}


def request(token: str) -> Request:
    return create_asgi_req(headers={"Authorization": f"Bearer {token}"})
