"""All plants in one response: `GET /plants.csv` and `GET /plants.ndjson`.

The plants are those of one snapshot of the store. A thread reads a page of them whenever the client
has taken the page before, so the memory is bounded, however many plants there are. A snapshot may
keep disk space in use, so its age is bounded.
"""

import asyncio
import contextlib
import inspect
import time
from collections.abc import AsyncGenerator, Callable, Generator, Iterator
from functools import partial
from typing import Final, TypeVar

from plantstore.api.auth import Authenticator
from plantstore.api.limits import ConcurrencyLimit
from plantstore.api.paging import FILTERS, ORDER, parse_filters
from plantstore.api.parameters import read_query
from plantstore.errors import (
    ErrorCode,
    InternalError,
    OperationError,
    RequestError,
    StoreUnavailableError,
)
from plantstore.formats import FORMATS, Format
from plantstore.listings import Listing, scan
from plantstore.messages import Request, Response
from plantstore.observe import DamagedPlantsExported, ExportCutOff, Observer, ReadFailed
from plantstore.plants import NewPlant
from plantstore.store import OnDamaged, OnNumber, Store
from plantstore.threads import THREADS, Threads

SCOPE: Final = "plants:read"

# Exports that run at a time. Each has a snapshot, and so a connection to the database.
EXPORTS_MAX: Final = 16

# Maximum duration of an export. While its snapshot is open, SQLite cannot reuse its log and
# PostgreSQL cannot remove old rows, so disk usage grows with the changes of this time.
EXPORT_SECONDS_MAX: Final = 600.0

# Threads that read pages.
READING_THREADS: Final = 4

# A thread reads pages until they have EXPORT_PIECE_BYTES, but at most PAGES_AT_ONCE. So a small
# export takes one call to a thread, and the others wait for a few pages.
EXPORT_PIECE_BYTES: Final = 32 * 1024
PAGES_AT_ONCE: Final = 4

ResultT = TypeVar("ResultT")


class Exports:
    """Answers with all plants."""

    def __init__(
        self,
        authenticator: Authenticator,
        store: Store,
        *,
        observe: Observer,
        monotonic: Callable[[], float] = time.monotonic,
        threads: Threads = THREADS,
    ) -> None:
        self._authenticator = authenticator
        self._store = store
        self._observe = observe
        self._monotonic = monotonic
        self._threads = threads.pool(READING_THREADS, "export")
        self.limit = ConcurrencyLimit(EXPORTS_MAX, "exports")

    async def run(self, request: Request) -> Response:
        """Return a file of all plants, or of those of a tag or a search. The path names the format.

        Raises:
            RequestError: a parameter is refused, too many exports run, the store cannot be read, or
                the format cannot hold a plant of the first page.

        """
        suffix = request.path.rpartition(".")[2]
        form = FORMATS[suffix]
        listing = parse_filters(read_query(request, *FILTERS, *ORDER))
        if request.version == "1.0":  # its clients know no chunks (RFC 9112 §7.1)
            raise RequestError(ErrorCode.BAD_REQUEST, "An export needs HTTP/1.1")
        numbers: list[int | None] = []
        pieces = self._read(request, form, listing, numbers.append)
        if request.method != "HEAD":
            await anext(pieces)
        fields = {
            "Content-Type": form.content_type,
            "Content-Disposition": f'attachment; filename="plants.{suffix}"',
        }
        for number in numbers:
            if number is not None:
                fields["Changes-After"] = str(number)
        return Response(200, fields, pieces)

    async def close(self) -> None:
        """Cut off all exports, and wait until the threads have ended."""
        await asyncio.to_thread(self._threads.shutdown, cancel_futures=True)

    async def _in_thread(self, function: Callable[[], ResultT]) -> ResultT:
        """Run a function on a thread, and return its result. A cancellation waits for its end."""
        running = asyncio.get_running_loop().run_in_executor(self._threads, function)
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            await asyncio.gather(running, return_exceptions=True)
            raise

    def _report(self, error: Exception) -> None:
        """Report why an export is cut off."""
        if isinstance(error, RequestError) and not isinstance(error, StoreUnavailableError):
            self._observe(ExportCutOff(error))
        else:
            self._observe(ReadFailed(error, 1))

    async def _read(
        self, request: Request, form: Format, listing: Listing, on_number: OnNumber
    ) -> AsyncGenerator[bytes, None]:
        """Yield the bytes of a file of plants. The first item is empty.

        When it is yielded, the beginning of the file is read. So an error of the store becomes a
        response. A later one cuts the file off. Close the generator if you stop early.
        """
        token, has_begun = request.token, False
        self.limit.acquire(token)
        ends_at = self._monotonic() + EXPORT_SECONDS_MAX
        damaged = 0

        def on_damaged(ids: list[int]) -> None:
            nonlocal damaged
            damaged += len(ids)

        pieces = _pieces(self._store, form, listing, on_number, on_damaged)
        try:
            piece, is_last = await self._next_of(pieces, request, ends_at)
            has_begun = True
            yield b""
            yield piece
            while not is_last:
                piece, is_last = await self._next_of(pieces, request, ends_at)
                yield piece
            if damaged:
                self._observe(DamagedPlantsExported(damaged))
        except Exception as error:
            if not has_begun:
                raise
            self._report(error)
            if isinstance(error, RequestError):
                raise
            raise InternalError from None  # the server cuts the response off, and logs no more
        finally:
            await self._end(pieces, token)

    async def _end(self, pieces: Generator[bytes, None, None], token: str) -> None:
        """Close the pieces, and then make room for another export."""
        try:
            if inspect.getgeneratorstate(pieces) != inspect.GEN_CLOSED:  # it has a snapshot
                await self._in_thread(pieces.close)
        except (Exception, asyncio.CancelledError):  # noqa: BLE001 (no thread at a stop)
            pieces.close()
        finally:
            self.limit.release(token)

    async def _next_of(
        self, pieces: Generator[bytes, None, None], request: Request, ends_at: float
    ) -> tuple[bytes, bool]:
        """Return the next bytes, whatever their number, and whether they are the last."""
        piece, is_last = b"", False
        while not piece and not is_last:
            if self._monotonic() > ends_at:
                raise RequestError(ErrorCode.REQUEST_TIMEOUT, "The export took too long")
            # The token may have been revoked in the meantime.
            await self._authenticator.authorize(request, SCOPE, uses=0)
            piece, is_last = await self._in_thread(partial(_join_next, pieces))
        return piece, is_last


def _join_next(pieces: Generator[bytes, None, None]) -> tuple[bytes, bool]:
    """Return a few pieces as one, and whether they are the last."""
    joined: list[bytes] = []
    for piece in pieces:
        joined.append(piece)
        if len(joined) == PAGES_AT_ONCE or sum(map(len, joined)) >= EXPORT_PIECE_BYTES:
            return b"".join(joined), False
    return b"".join(joined), True


def _pieces(
    store: Store, form: Format, listing: Listing, on_number: OnNumber, on_damaged: OnDamaged
) -> Generator[bytes, None, None]:
    """Yield the bytes of a file of plants. A piece is empty if a page has no plants.

    Raises:
        RequestError: NOT_ACCEPTABLE if the format cannot hold a plant; OVERLOADED if older
            exports keep the store from freeing space.

    """
    if not store.has_room_for_export():
        message = "The log of the database is too long for another export; nothing was done"
        raise RequestError(ErrorCode.OVERLOADED, message)
    if form is FORMATS["csv"] and not listing.tag and not listing.is_untagged:
        yield from _refuse_empty_tags(store, form, listing)
    with contextlib.closing(store.scan_plants(listing, on_number, on_damaged)) as pages:
        yield form.head
        for plants in pages:
            yield _render(form, plants)


def _refuse_empty_tags(store: Store, form: Format, listing: Listing) -> Iterator[bytes]:
    """Look for a plant with an empty tag, which CSV cannot hold, before the first piece.

    If one is stored between this search and the snapshot of the export, the export is cut off.

    Raises:
        RequestError: NOT_ACCEPTABLE.

    """
    if store.list_plants(Listing(tag="", limit=1)).items:
        for plants in scan(store.list_plants, listing._replace(tag="")):
            _render(form, plants)
            if plants:
                break
            yield b""


def _render(form: Format, plants: list[NewPlant]) -> bytes:
    try:
        return form.render(plants)
    except OperationError as error:
        raise RequestError(ErrorCode.NOT_ACCEPTABLE, error.message) from error
