"""What the batcher passes to its thread, and the counts of what is not answered yet."""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from plantstore.errors import RequestError

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


class Load:
    """The number and the total weight of requests that are not answered yet."""

    __slots__ = ("requests", "weight")

    def __init__(self) -> None:
        self.requests = 0
        self.weight = 0

    def add(self, requests: int, weight: int) -> None:
        """Add requests; with negative numbers, remove them."""
        self.requests += requests
        self.weight += weight


class _Answer(asyncio.Future[Sequence[ResultT | RequestError]]):
    """The future that all callers of a batch await. None of them can cancel it.

    asyncio cancels a task by cancelling the future that the task awaits. This future
    refuses, so the task is cancelled later, when the future is done.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 (the signature is asyncio's)
        return False


class Batch(Generic[RequestT, ResultT]):
    """Requests that are answered together, and the future that their callers await.

    Attributes:
        requests: what the thread runs.
        weight: of all of them.
        load: counts them until they are answered.
        answer: has their results.

    """

    __slots__ = ("answer", "load", "requests", "weight")

    def __init__(self, loop: asyncio.AbstractEventLoop, load: Load) -> None:
        self.requests: list[RequestT] = []
        self.weight = 0
        self.load = load
        self.answer: _Answer[ResultT] = _Answer(loop=loop)
