"""The batches that the batcher passes to its thread."""

import asyncio
from collections.abc import Sequence
from typing import Generic, TypeVar

from plantstore.errors import RequestError

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")


class _Answer(asyncio.Future[Sequence[ResultT | RequestError]]):
    """The future that all callers of a batch await. None of them can cancel it.

    asyncio cancels a task by cancelling the future that the task awaits. This future
    refuses, so the task is cancelled later, when the future is done.
    """

    def cancel(self, msg: object = None) -> bool:  # noqa: ARG002 (the signature is asyncio's)
        return False


class Batch(Generic[RequestT, ResultT]):
    """Requests that are answered together.

    Attributes:
        requests: what the thread runs.
        weight: of all of them.
        is_many: whether one caller submitted them all.
        answer: the future that their callers await. The answer to `is_many` is empty if each half
            of the requests must be run again.

    """

    __slots__ = ("answer", "is_many", "requests", "weight")

    def __init__(self, loop: asyncio.AbstractEventLoop, *, is_many: bool = False) -> None:
        self.requests: list[RequestT] = []
        self.weight = 0
        self.is_many = is_many
        self.answer: _Answer[ResultT] = _Answer(loop=loop)
