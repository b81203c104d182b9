"""Connections that several threads share."""

import contextlib
from collections.abc import Iterator, Sequence
from queue import SimpleQueue
from typing import Generic, TypeVar

MemberT = TypeVar("MemberT")


class Pool(Generic[MemberT]):
    """Gives each of its members to one thread at a time."""

    def __init__(self, members: Sequence[MemberT]) -> None:
        self.members = members
        self._free: SimpleQueue[MemberT] = SimpleQueue()
        for member in members:
            self._free.put(member)

    @contextlib.contextmanager
    def using(self) -> Iterator[MemberT]:
        """Give a member to the block, once one is free."""
        member = self._free.get()
        try:
            yield member
        finally:
            self._free.put(member)
