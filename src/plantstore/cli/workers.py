"""The processes of a service with several workers.

The parent starts and replaces the workers. They share a folder, with their counts for the metrics
and, on SQLite, the locks with which they take turns to write (`plantstore.commit.turnstile`).
"""

import contextlib
import fcntl
import functools
import os
import shutil
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from plantstore.cli.wiring import Telemetry, build_app, open_store_of
from plantstore.commit.batcher import NO_TURNSTILE
from plantstore.commit.turnstile import Turnstile
from plantstore.errors import PlantStoreError
from plantstore.server.interface import ASGIApp
from plantstore.server.workers import Workers, set_up_memory, uvicorn_config
from plantstore.settings import Settings
from plantstore.storage import has_one_writer
from plantstore.telemetry.log import configure_logs
from plantstore.telemetry.metrics import is_ours

# Where the folder is, so that it works even if a disk is full.
SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 (the folder in it belongs to this user)

# A folder of somebody else must not have it.
_PREFIX: Final = "plantstore-workers-"

# Age below which a folder without a lock is not removed: its service may be about to lock it.
_NEW_SECONDS: Final = 60


def run_workers(settings: Settings, listener: socket.socket) -> bool:
    """Serve with several processes until a signal. Return whether the workers could start."""
    has_memory = os.access(SHARED_MEMORY, os.W_OK)
    with shared_folder(SHARED_MEMORY if has_memory else Path(tempfile.gettempdir())) as folder:
        build = functools.partial(_build_worker, settings, folder)
        workers = Workers(uvicorn_config(build, settings), [listener], settings.drain_seconds)
        workers.run()
        return not workers.could_not_start


@contextlib.contextmanager
def shared_folder(place: Path) -> Iterator[Path]:
    """Yield a new folder, and remove it and those of services that were killed."""
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


def _build_worker(settings: Settings, folder: Path) -> ASGIApp:
    """Build the application of a worker, which opens the store for itself."""
    set_up_memory()
    log = configure_logs()
    shared = folder if is_ours(folder) else None
    telemetry = Telemetry(log, settings, shared)
    try:
        store = open_store_of(settings, telemetry)
    except PlantStoreError as error:
        log.write(f"plantstore: {error.explanation}\n")
        # With any status except STARTUP_FAILURE, the parent tries again. The parent opened the
        # store before, so the failure is new; the other processes continue meanwhile.
        sys.exit(1)
    turnstile = Turnstile(shared) if shared and has_one_writer(settings.database) else NO_TURNSTILE
    return build_app(settings, store, telemetry, turnstile)
