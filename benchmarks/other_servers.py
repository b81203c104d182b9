"""The service behind another server: uvicorn, or Granian with ASGI or RSGI.

    python benchmarks/other_servers.py DATABASE PORT uvicorn|granian|granian-rsgi

The store, the operations, the log and the metrics are those of `plantstore serve`.
"""

import asyncio
import contextlib
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any, Final, TypeAlias

import uvicorn
import uvloop
from granian.constants import Interfaces
from granian.server.embed import Server as Granian

from asgi import Asgi
from plantstore.api.operations import Parts
from plantstore.cli.wiring import Telemetry, make_parts, make_server, open_store_of, running
from plantstore.server.connection import Server
from plantstore.server.process import freeze_memory, raise_file_limit, set_up_memory
from plantstore.settings import Settings
from plantstore.telemetry.log import configure_logs
from rsgi import Rsgi

Serving: TypeAlias = Callable[[Server, Parts, int], AbstractAsyncContextManager[None]]


@asynccontextmanager
async def on_uvicorn(config: Server, parts: Parts, port: int) -> AsyncIterator[None]:
    """Serve on uvicorn while the block runs."""
    server = uvicorn.Server(
        uvicorn.Config(
            Asgi(config, parts),
            port=port,
            http="httptools",
            ws="none",
            lifespan="on",
            log_level="error",
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
    )
    served = asyncio.create_task(server.serve())
    await _wait_for(port, served)
    try:
        yield
    finally:
        server.should_exit = True
        await served


@asynccontextmanager
async def on_granian(config: Server, parts: Parts, port: int) -> AsyncIterator[None]:
    """Serve on Granian, with ASGI, while the block runs."""
    async with _granian(Asgi(config, parts), port, Interfaces.ASGI):
        yield


@asynccontextmanager
async def on_granian_rsgi(config: Server, parts: Parts, port: int) -> AsyncIterator[None]:
    """Serve on Granian, with RSGI, while the block runs."""
    async with running(parts), _granian(Rsgi(config), port, Interfaces.RSGI):
        yield


SERVERS: Final[dict[str, Serving]] = {
    "uvicorn": on_uvicorn,
    "granian": on_granian,
    "granian-rsgi": on_granian_rsgi,
}


@asynccontextmanager
async def _granian(
    application: Any,  # noqa: ANN401 (Granian's)
    port: int,
    interface: Interfaces,
) -> AsyncIterator[None]:
    server = Granian(
        application, port=port, interface=interface, websockets=False, log_enabled=False
    )
    served = asyncio.create_task(server.serve())
    await _wait_for(port, served)
    try:
        yield
    finally:
        server.stop()  # type: ignore[no-untyped-call]
        await served


async def _wait_for(port: int, served: asyncio.Task[None]) -> None:
    """Wait until a server listens.

    Raises:
        RuntimeError: it does not start.

    """
    async with asyncio.timeout(30):
        while not served.done():
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                await writer.wait_closed()
                return
            await asyncio.sleep(0.01)
    raise RuntimeError("the server did not start") from served.exception()


def main(database: str, port: str, name: str) -> None:
    set_up_memory()
    raise_file_limit()
    settings = Settings(database=f"sqlite:///{database}", port=int(port))
    telemetry = Telemetry(configure_logs(), settings)
    metrics = telemetry.metrics.renderings

    async def run() -> None:
        freeze_memory()
        stopping = asyncio.Event()
        with contextlib.closing(open_store_of(settings, telemetry)) as store:
            parts = make_parts(settings, store, observe=telemetry.observe, metrics=metrics)
            config = make_server(settings, parts, telemetry.observe)
            async with SERVERS[name](config, parts, settings.port):
                # Afterwards, so that it takes the place of the handler of the server.
                asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, stopping.set)
                await stopping.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())


if __name__ == "__main__":
    main(*sys.argv[1:])
