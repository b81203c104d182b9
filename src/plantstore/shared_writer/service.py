"""The process that writes: it commits what all workers send, together.

`plantstore.batcher` passes the batches of the workers to the thread that writes. The thread
concatenates all that wait, and applies them in one transaction. If the store refuses them, each
batch is applied again by itself, so that no worker affects another one. If it refuses the batch of
one worker, that worker gets the error, and sends each half of its batch again.
"""

import asyncio
import socket
import sys
import time
from collections.abc import Sequence
from itertools import islice
from typing import Any, Final, TypeAlias

from plantstore.batcher import Batcher
from plantstore.changes import Change
from plantstore.observe import Committed, Observer, SharedWriterStarted
from plantstore.shared_writer.messages import (
    LENGTH_BYTES,
    Applied,
    Apply,
    Failed,
    HandedOut,
    HandOut,
    Probe,
    ProtocolError,
    Ready,
    Request,
    Response,
    length_of,
    parse_request,
    to_bytes,
)
from plantstore.store import PlantWrites

# Maximum length of the batches in one transaction, in bytes, unless a single one is longer. A usual
# create has 40 bytes. This limits how long a worker waits for the batches of the others.
TRANSACTION_BYTES_MAX: Final = 1024 * 1024

# Each worker has one batch at a time, so this number of batches never waits.
BATCHES_MAX: Final = 1024

_Batch: TypeAlias = Sequence[Change]


class WriterService:
    """Serves the connections of the workers, until it is told to stop and no connection is left.

    Args:
        store: only one thread calls its `apply_changes`. The caller closes it afterwards.
        observe: gets the events, on either thread.

    """

    def __init__(self, store: PlantWrites, observe: Observer) -> None:
        self._store = store
        self._observe = observe
        self._batcher: Batcher[_Batch, Applied | Failed] = Batcher(
            self._apply,
            lambda error, _batches: Failed.of(error),
            name="writer",
            waiting_max=BATCHES_MAX,
            weight_max=sys.maxsize,  # the number of workers is the limit
            batch_max=BATCHES_MAX,
            batch_weight_max=TRANSACTION_BYTES_MAX,
            idle=store.tidy,
        )
        self._connections = 0
        self._is_stopping = False
        self._ended = asyncio.Event()

    async def serve(self, listener: socket.socket) -> None:
        """Serve connections.

        Args:
            listener: the socket; it listens already, and its owner closes it.

        """
        self._batcher.start()
        self._observe(SharedWriterStarted())
        # From Python 3.13, a server deletes its address when it is closed.
        options: dict[str, Any] = {"cleanup_socket": False} if sys.version_info >= (3, 13) else {}
        server = await asyncio.start_unix_server(self._converse, sock=listener, **options)
        await self._ended.wait()
        server.close()
        await self._batcher.close()

    @property
    def waiting(self) -> int:
        """The number of batches that are not answered yet."""
        return self._batcher.waiting

    def stop(self) -> None:
        """End once no worker is connected. Until then, the workers may finish their requests."""
        self._is_stopping = True
        self._end_if_idle()

    def _end_if_idle(self) -> None:
        if self._is_stopping and not self._connections:
            self._ended.set()

    async def _converse(
        self, requests: asyncio.StreamReader, responses: asyncio.StreamWriter
    ) -> None:
        self._connections += 1
        try:
            responses.write(to_bytes(Ready()))
            while True:
                length = length_of(await requests.readexactly(LENGTH_BYTES))
                body = await requests.readexactly(length)
                responses.write(to_bytes(await self._respond(parse_request(body), length)))
                await responses.drain()
        except (OSError, asyncio.IncompleteReadError, ProtocolError):
            pass  # the worker has ended
        finally:
            responses.close()
            self._connections -= 1
            self._end_if_idle()

    async def _respond(self, request: Request, length: int) -> Response:
        try:
            match request:
                case Apply():
                    return await self._batcher.submit(request.changes, length)
                case HandOut(count=count):
                    ids = await asyncio.to_thread(self._store.hand_out_ids, count)
                    return HandedOut(ids[0], ids[-1])
                case Probe():
                    await asyncio.to_thread(self._store.probe)
                    return Ready()
        except ProtocolError:
            raise
        except Exception as error:  # noqa: BLE001 (the worker decides)
            return Failed.of(error)

    # The method below runs on the thread.

    def _apply(self, batches: Sequence[_Batch]) -> list[Applied | Failed]:
        changes = [change for batch in batches for change in batch]
        began = time.perf_counter()
        outcomes = self._store.apply_changes(changes)
        self._observe(Committed(outcomes, time.perf_counter() - began))
        rest = iter(outcomes)
        return [Applied([*islice(rest, len(batch))]) for batch in batches]
