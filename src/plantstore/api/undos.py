"""Undoing a change set: `POST /undo`.

An undo walks its set twice (`plantstore.change_sets`): first to learn which scopes it needs, and
then in batches, as an import of them. What is made already costs no transaction and no use of the
token, so an undo that is sent again continues where it stopped.
"""

from collections.abc import AsyncGenerator
from functools import partial

import msgspec

from plantstore.api.bulk_changes import BulkChanges, Job, Step
from plantstore.api.parameters import (
    CHANGE_SET,
    invalid,
    json_response,
    parse_flag,
    parse_set_name,
    read_query,
    require_empty,
    set_of,
)
from plantstore.change_sets import SetPage, SetPosition, UndoCounts, Walk, settle
from plantstore.changes import CHANGED, Swap
from plantstore.commit.reader import GroupRead
from plantstore.decision import decide
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.messages import Request, Response
from plantstore.observe import CommitFailed, Observer
from plantstore.plants import NewPlant
from plantstore.store import PlantStore


class Undos:
    """Undoes change sets.

    Args:
        bulk: makes the changes.
        reader: reads sets and plants.
        store: its `close_set` is called by a thread.
        observe: gets the failure of a set that could not be closed.

    """

    def __init__(
        self, bulk: BulkChanges, reader: GroupRead, store: PlantStore, *, observe: Observer
    ) -> None:
        self._bulk = bulk
        self._reader = reader
        self._store = store
        self._observe = observe

    async def run(self, request: Request) -> Response:
        """Undo a set: 200 with the counts of its plants, once all are on disk.

        Raises:
            RequestError: a parameter is refused, there is no such set, its first change is not
                kept, the token lacks a scope, or the store failed. What was made before stays.

        """
        parameters = read_query(request, "set", "dry-run")
        name = parse_set_name("set", parameters.get("set", ""))
        is_dry_run = parse_flag(parameters, "dry-run")
        in_set = set_of(request)
        if in_set == name:
            raise invalid(f"{CHANGE_SET} must be another set than the one that is undone")
        await require_empty(request, "name the set in the query, as ?set=NAME")
        counts = UndoCounts()
        job = Job(request, set_name=None if is_dry_run else in_set)
        steps = self._steps(job, name, counts, is_dry_run=is_dry_run)
        fields = await self._bulk.make(job, steps)
        counts.kept_ids.sort()
        return json_response(msgspec.json.encode(counts), fields)

    async def _steps(
        self, job: Job, name: str, counts: UndoCounts, *, is_dry_run: bool
    ) -> AsyncGenerator[Step]:
        """Close a set, and yield what is left to do of its undo. The rest is counted."""
        job.scopes = await self._close(job, name)
        async for swaps in self._walk(job, name):
            stored = await self._reader.find_plants([swap.id for swap in swaps])
            split = partial(_settle_made, counts, is_dry_run=is_dry_run)
            if left := await self._bulk.in_thread(split, swaps, stored):
                yield Step(left, len(left), partial(settle, counts, left))

    async def _close(self, job: Job, name: str) -> set[str]:
        """Close a set if the token may undo it; return the scopes that its changes need."""
        scopes: set[str] = set()
        walked = -1
        while walked != (total := (await self._read(name, None, 0)).total):
            walked = total  # it may get more until it is closed
            async for swaps in self._walk(job, name):
                for swap in swaps:
                    if swap.before != swap.after:
                        scopes.update(swap.scopes)
            await self._bulk.admit(job.request, scopes)
            await self._bulk.in_thread(self._close_now, name)
        return scopes

    def _close_now(self, name: str) -> None:
        try:
            self._store.close_set(name)
        except StoreUnavailableError as error:
            self._observe(CommitFailed(error, 1))
            raise

    async def _walk(self, job: Job, name: str) -> AsyncGenerator[list[Swap]]:
        """Yield the swaps that undo a set, in batches."""
        walk = Walk()
        while not walk.is_over:
            job.require_client()
            page = await self._read(name, walk.place, self._bulk.rows_now(job))
            if swaps := await self._bulk.in_thread(walk.take, page):
                yield swaps

    async def _read(self, name: str, after: SetPosition | None, limit: int) -> SetPage:
        try:
            return await self._reader.read(None, PlantStore.read_set, name, after, limit)
        except RequestError as error:
            if error.code is ErrorCode.FEED_OFF:
                raise invalid(f"`set` cannot be undone. {error.message}") from None
            raise


def _settle_made(
    counts: UndoCounts, swaps: list[Swap], stored: dict[int, NewPlant], *, is_dry_run: bool
) -> list[Swap]:
    """Count the swaps that change nothing now, or all in a dry run; return the others."""
    outcomes, _ = decide(swaps, stored)
    left: list[Swap] = []
    for swap, outcome in zip(swaps, outcomes, strict=True):
        if outcome in CHANGED and not is_dry_run:
            left.append(swap)
        else:
            settle(counts, [swap], [outcome])
    return left
