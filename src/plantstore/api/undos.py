"""Undoing a change set: `POST /undo`.

An undo walks its set twice (`plantstore.change_sets`): first to learn which scopes it needs, and
then in batches through the writer, as an import does. It ends between two batches if its client is
gone or the token does not allow it any more. Sent again, it skips what is made already.
"""

import asyncio
import sys
from collections.abc import AsyncIterator, Callable, Sequence
from itertools import compress
from typing import Final, TypeVar, TypeVarTuple

import msgspec

from plantstore.api.auth import Authenticator, ConcurrencyLimit
from plantstore.api.change_set_field import (
    FIELD,
    all_in_set,
    parse_set_name,
    recorded,
    set_of,
)
from plantstore.api.file_imports import SHARED_BATCH_ROWS_MAX, SHARED_SECONDS
from plantstore.api.parameters import invalid, json_response, parse_flag, read_query
from plantstore.change_sets import Place, SetPage, UndoCounts, Walk, scopes_of, settle
from plantstore.changes import Outcome, Result, Swap
from plantstore.commit.reader import GroupRead
from plantstore.commit.writer import GroupCommit
from plantstore.decision import decide
from plantstore.errors import (
    ClientGoneError,
    ErrorCode,
    RequestError,
    StoreUnavailableError,
)
from plantstore.observe import CommitFailed, Observer
from plantstore.server.interface import Request, Response, pieces
from plantstore.store import PlantStore
from plantstore.threads import THREADS, Threads

# Undos that run at a time.
UNDOS_MAX: Final = 32

# Changes of a set that are read at once, and so plants of one transaction.
BATCH_CHANGES_MAX: Final = 4_000

_CHANGED: Final = frozenset({Outcome.STORED, Outcome.REPLACED, Outcome.DELETED})

ArgumentsT = TypeVarTuple("ArgumentsT")
ResultT = TypeVar("ResultT")


class Undos:
    """Undoes change sets.

    Args:
        authenticator: knows the tokens.
        writer: makes changes.
        reader: reads sets and plants.
        store: its `close_set` is called by a thread.
        observe: is told of a set that could not be closed.
        threads: makes the thread.

    Attributes:
        limit: of the undos that run at a time.

    """

    def __init__(
        self,
        authenticator: Authenticator,
        writer: GroupCommit,
        reader: GroupRead,
        store: PlantStore,
        *,
        observe: Observer,
        threads: Threads = THREADS,
    ) -> None:
        self._authenticator = authenticator
        self._writer = writer
        self._reader = reader
        self._store = store
        self._observe = observe
        burst_max = authenticator.rate_limit.burst_max
        self._batch_max = sys.maxsize if burst_max is None else max(1, burst_max // 2)
        self._thread = threads.pool(1, "undo")
        self.limit = ConcurrencyLimit(UNDOS_MAX, "undos")

    async def run(self, request: Request) -> Response:
        """Undo a set: 200 with the counts of its plants, once all are on disk.

        Raises:
            RequestError: a parameter is refused, there is no such set, its first change is not
                kept, the token lacks a scope, or the store failed. What was made before stays.

        """
        parameters = read_query(request, "set", "dry-run")
        name = parse_set_name("set", parameters.get("set", ""))
        is_trial = parse_flag(parameters, "dry-run")
        if set_of(request) == name:
            raise invalid(f"{FIELD} must be another set than the one that is undone")
        async for piece in pieces(request.body):
            if piece:  # the rest is not read
                raise invalid("The body must be empty: name the set in the query, as ?set=NAME")
        self.limit.acquire(request.token)
        try:
            scopes = await self._close(request, name)
            before = await self._last_number()
            counts = await self._undo(request, name, scopes, is_trial=is_trial)
            after = await self._last_number()
        finally:
            self.limit.release(request.token)
        fields = {} if is_trial else await recorded(request, self._reader)
        fields |= {"Changes-Before": str(before), "Changes-After": str(after)}
        return json_response(msgspec.json.encode(counts), fields)

    async def close(self) -> None:
        """Wait until the thread has ended."""
        await asyncio.to_thread(self._thread.shutdown)

    async def _close(self, request: Request, name: str) -> set[str]:
        """Close a set if the token may undo it; return the scopes that this needs."""
        scopes: set[str] = set()
        walked = -1
        while walked != (total := (await self._read(name, None, 0)).total):
            walked = total  # it may get more until it is closed
            async for swaps in self._walk(request, name):
                scopes.update(scopes_of(swaps))
            await self._admit(request, scopes)
            await self._in_thread(self._close_now, name)
        return scopes

    def _close_now(self, name: str) -> None:
        try:
            self._store.close_set(name)
        except StoreUnavailableError as error:
            self._observe(CommitFailed(error, 1))
            raise

    async def _undo(
        self, request: Request, name: str, scopes: set[str], *, is_trial: bool
    ) -> UndoCounts:
        counts, prepaid_uses = UndoCounts(), 1
        async for swaps in self._walk(request, name):
            await self._admit(request, scopes)
            stored = await self._reader.find_plants([swap.id for swap in swaps])
            outcomes: Sequence[Result | RequestError]
            outcomes, _ = await self._in_thread(decide, swaps, stored)
            # What would change nothing now takes no transaction, and no use of the token.
            left = [] if is_trial else [*map(_CHANGED.__contains__, outcomes)]
            if any(left):
                uses = sum(left) - prepaid_uses
                self._authenticator.rate_limit.spend(request.token, uses)
                prepaid_uses = 0
                changes = all_in_set(request, [*compress(swaps, left)])
                made = iter(await self._writer.submit_all(changes))
                outcomes = [
                    next(made) if is_left else outcome
                    for outcome, is_left in zip(outcomes, left, strict=True)
                ]
            await self._in_thread(settle, counts, swaps, outcomes)
        return counts

    async def _walk(self, request: Request, name: str) -> AsyncIterator[list[Swap]]:
        """Yield the swaps that undo a set, in batches."""
        walk = Walk()
        while not walk.is_over:
            if request.is_client_gone():
                raise ClientGoneError
            since = asyncio.get_running_loop().time() - self._writer.last_single_at
            limit = SHARED_BATCH_ROWS_MAX if since < SHARED_SECONDS else BATCH_CHANGES_MAX
            page = await self._read(name, walk.place, min(limit, self._batch_max))
            if swaps := await self._in_thread(walk.take, page):
                yield swaps

    async def _read(self, name: str, after: Place | None, limit: int) -> SetPage:
        try:
            return await self._reader.read(PlantStore.read_set, name, after, limit)
        except RequestError as error:
            if error.code is ErrorCode.FEED_OFF:
                raise invalid(f"`set` cannot be undone. {error.message}") from None
            raise

    async def _admit(self, request: Request, scopes: set[str]) -> None:
        for scope in sorted(scopes):
            await self._authenticator.authorize(request, scope, uses=0)

    async def _last_number(self) -> int:
        return (await self._reader.read(PlantStore.read_changes, None, 1)).end or 0

    async def _in_thread(
        self, function: Callable[[*ArgumentsT], ResultT], *args: *ArgumentsT
    ) -> ResultT:
        return await asyncio.get_running_loop().run_in_executor(self._thread, function, *args)
