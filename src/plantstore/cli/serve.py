"""`plantstore serve`: the one place where everything is wired together."""

import contextlib
import functools
import ipaddress
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from typing import NoReturn

import typer
import uvicorn
from uvicorn.config import STARTUP_FAILURE
from uvicorn.supervisors import Multiprocess

from plantstore.api.app import ASGIApp, create_app
from plantstore.api.auth import Gate
from plantstore.api.protocol import HttpProtocol
from plantstore.cli.tokens import create_token
from plantstore.errors import PlantStoreError, StoreUnreachableError, UsageError
from plantstore.reader import GroupRead
from plantstore.settings import Settings
from plantstore.storage import display_url, open_store
from plantstore.storage.migrate import SchemaPolicy
from plantstore.store import Store
from plantstore.telemetry.logs import configure_logs, log_events
from plantstore.tokens import SCOPES
from plantstore.writer import GroupCommit


def run(settings: Settings) -> None:
    """Serve until told to stop."""
    # Uvicorn stops in good order, and then raises the signal again for us.
    signal.signal(signal.SIGTERM, _exit)
    signal.signal(signal.SIGINT, _exit)
    configure_logs()
    with _listen(settings.host, settings.port) as listener:
        with contextlib.closing(_open_store(settings)) as store:
            _introduce(store, settings, listener)
        config = server_config(functools.partial(_build_app, settings), settings)
        if settings.workers == 1:
            uvicorn.Server(config).run(sockets=[listener])
        else:
            supervisor = Multiprocess(config, sockets=[listener])
            supervisor.run()
            if any(process.exitcode == STARTUP_FAILURE for process in supervisor.processes):
                raise typer.Exit(1)


def server_config(app_factory: Callable[[], ASGIApp], settings: Settings) -> uvicorn.Config:
    """Return how uvicorn runs an application here; with several workers, each makes its own."""
    return uvicorn.Config(
        app_factory,
        factory=True,
        interface="asgi3",
        http=HttpProtocol,
        ws="none",
        loop="uvloop",
        lifespan="on",
        workers=settings.workers,
        timeout_graceful_shutdown=settings.stop_seconds,
        proxy_headers=False,
        server_header=False,
        access_log=False,
        log_config=None,
    )


def _build_app(settings: Settings) -> ASGIApp:
    """Wire one process: with several workers, each calls this for itself."""
    configure_logs()
    observe = log_events()
    parent = multiprocessing.parent_process()
    if parent is not None:
        threading.Thread(target=_stop_with, args=(parent,), daemon=True).start()
    try:
        store = _open_store(settings)
    except PlantStoreError as error:
        if parent is None:
            raise
        typer.echo(f"plantstore: {error.explanation}", err=True)
        # To uvicorn's parent process, one status means "do not try again", any other "try again".
        sys.exit(1 if isinstance(error, StoreUnreachableError) else STARTUP_FAILURE)
    writer = GroupCommit(
        store,
        queue_plants_max=settings.queue_plants_max,
        queue_characters_max=settings.queue_characters_max,
        batch_plants_max=settings.batch_plants_max,
        observe=observe,
    )
    return create_app(
        store=store,
        writer=writer,
        reader=GroupRead(store, queue_reads_max=settings.queue_reads_max, observe=observe),
        gate=Gate(store, clock=time.time, monotonic=time.monotonic, observe=observe),
        body_bytes_max=settings.body_bytes_max,
        observe=observe,
    )


def _open_store(settings: Settings) -> Store:
    return open_store(settings.database, SchemaPolicy.of(migrate=settings.migrate))


def _stop_with(parent: BaseProcess) -> None:
    """Stop this worker when its parent is gone, or it would hold the port for ever."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)


def _exit(_signal: int, _frame: object) -> NoReturn:
    sys.exit(0)


def _listen(host: str, port: int) -> socket.socket:
    try:
        [(family, _, _, _, address), *_] = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        return socket.create_server((address[0], port), family=family)
    except (OSError, UnicodeError) as error:
        reason = getattr(error, "strerror", None) or error
        raise UsageError(f"Cannot listen on {host}, port {port}: {reason}") from error


def _introduce(store: Store, settings: Settings, listener: socket.socket) -> None:
    """Say how to get in, if nobody can yet, and then where the service is."""
    host, port = listener.getsockname()[:2]
    address = ipaddress.ip_address(host)
    url = f"http://{f'[{host}]' if address.version == 6 else host}:{port}"  # noqa: PLR2004
    database = display_url(settings.database)
    if not store.list_tokens():
        if address.is_loopback:
            with contextlib.suppress(UsageError):  # Another process was first.
                secret = create_token(store, "first", SCOPES)
                typer.echo(_GREETING.format(secret=secret, url=url))
        else:
            # What a URL of PostgreSQL has of secrets is not shown, and so it is not to be pasted.
            option = f" --database {database}" if database.startswith("sqlite") else ""
            typer.echo(_WARNING.format(option=option), err=True)
    typer.echo(f"Serving {database} on {url}", err=True)


_WARNING = """\
There is no token yet, so every request will be refused. Create one:

    plantstore token create NAME{option}
"""

_GREETING = """
There is no token yet, so here is a first one, good for everything.
It is shown this once:

    {secret}

Store a plant:

    curl -i {url}/plants \\
      -H 'Authorization: Bearer {secret}' \\
      -H 'Content-Type: application/json' \\
      -d '{{"id": 1, "name": "Abies balsamea (L.) Mill.", "tag": "Abies"}}'
"""
