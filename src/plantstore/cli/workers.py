"""The processes of a service with several workers.

The parent starts and replaces the workers, which serve HTTP. On SQLite it also keeps one process
that writes for all of them (`plantstore.commit.writer_process`).
"""

import contextlib
import fcntl
import functools
import os
import shutil
import signal
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Final

from plantstore.cli.wiring import Telemetry, build_app, open_store_of
from plantstore.commit.remote_writer import RemoteWriter
from plantstore.commit.writer_process import WriterService, listen
from plantstore.errors import PlantStoreError
from plantstore.observe import Committed, Event, Observer
from plantstore.server.interface import ASGIApp
from plantstore.server.supervised_process import SupervisedProcess, answer_checks
from plantstore.server.workers import Workers, set_up_memory, stop_signals, uvicorn_config
from plantstore.settings import Settings
from plantstore.storage import has_one_writer
from plantstore.telemetry.log import configure_logs

# Where the processes share their counts, even if a disk is full.
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (the folder in it belongs to this user)

# A folder of somebody else must not have it.
_PREFIX: Final = "plantstore-counts-"

# Age below which a folder without a lock is not removed: its service may be about to lock it.
_NEW_SECONDS: Final = 60


def run_workers(settings: Settings, listener: socket.socket) -> bool:
    """Serve with several processes until a signal. Return whether the workers could start."""
    with contextlib.ExitStack() as stack:
        has_memory = os.access(SHARED_MEMORY, os.W_OK)
        place = SHARED_MEMORY if has_memory else Path(tempfile.gettempdir())
        folder = stack.enter_context(shared_folder(place))
        writer = entrance = None
        if has_one_writer(settings.database):
            ours, entrance = map(stack.enter_context, listen())
            writer = SupervisedProcess(_write, settings, folder, ours)
            stack.callback(writer.kill)
        build = functools.partial(_build_worker, settings, folder, entrance)
        workers = Workers(uvicorn_config(build, settings), [listener], writer)
        workers.run()
        return not workers.could_not_start


@contextlib.contextmanager
def shared_folder(place: Path) -> Iterator[Path]:
    """Yield a new folder for the counts, and remove it and those of services that were killed."""
    for left in place.glob(f"{_PREFIX}*"):
        with contextlib.suppress(OSError), _locked(left):
            if time.time() - left.stat().st_mtime > _NEW_SECONDS:
                shutil.rmtree(left)
    with (
        tempfile.TemporaryDirectory(prefix=_PREFIX, dir=place, ignore_cleanup_errors=True) as name,
        _locked(Path(name)),
    ):
        yield Path(name)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Hold the lock on a folder, which the kernel releases when this process ends.

    Raises:
        OSError: a service holds it, or this user may not open the folder.

    """
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
    finally:
        os.close(descriptor)


def _build_worker(settings: Settings, folder: Path, entrance: socket.socket | None) -> ASGIApp:
    """Build the application of a worker, which opens the store for itself."""
    with _process(settings, folder) as telemetry:
        store = open_store_of(settings, telemetry)
        if entrance is None:
            return build_app(settings, store, telemetry)
        writes = RemoteWriter(entrance)
        telemetry.observe = _without_commits(telemetry.observe)
        return build_app(settings, store, telemetry, writes)


def _write(checks: Connection, settings: Settings, folder: Path, listener: socket.socket) -> None:
    """Write for all workers, until a signal."""
    with _process(settings, folder) as telemetry:
        store = open_store_of(settings, telemetry)
    with contextlib.closing(store):
        service = WriterService(store, telemetry.observe)
        for number in stop_signals():
            signal.signal(number, lambda _signal, _frame: service.stop())
            signal.siginterrupt(number, False)  # noqa: FBT003 (SQLite reports it as an I/O error)
        answer_checks(checks)
        service.serve(listener)


@contextlib.contextmanager
def _process(settings: Settings, folder: Path) -> Iterator[Telemetry]:
    """Set up a process, and end it if its store cannot be opened."""
    set_up_memory()
    log = configure_logs()
    try:
        yield Telemetry(log, settings, folder)
    except PlantStoreError as error:
        log.write(f"plantstore: {error.explanation}\n")
        # With any status except STARTUP_FAILURE, the parent tries again. The parent opened the
        # store before, so the failure is new; the other processes continue meanwhile.
        sys.exit(1)


def _without_commits(observe: Observer) -> Observer:
    """Return an observer that ignores commits: the process that writes observes them."""

    def tell(event: Event) -> None:
        if not isinstance(event, Committed):
            observe(event)

    return tell
