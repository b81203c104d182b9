"""A worker of `plantstore serve --workers`: its parent runs `python -m plantstore.cli.worker`."""

import pickle
import socket
import sys
from pathlib import Path

from plantstore.cli.wiring import Telemetry, open_store_of, run_process
from plantstore.commit.batcher import NO_TURNSTILE
from plantstore.commit.turnstile import Turnstile
from plantstore.errors import PlantStoreError
from plantstore.server.process import set_up_memory
from plantstore.settings import Settings
from plantstore.storage import has_one_writer, require_files
from plantstore.storage.sqlite.file import set_up_sqlite
from plantstore.storage.sqlite.guard import Files
from plantstore.telemetry.log import configure_logs
from plantstore.telemetry.metrics import is_ours


def brief(settings: Settings, folder: Path, files: Files | None, listener: int) -> bytes:
    """Return what a worker reads from its stdin. Other users can see arguments and variables.

    Args:
        settings: of the service, with the password of the database.
        folder: that the workers share.
        files: those of the store, which the parent has open.
        listener: the descriptor of the socket that accepts connections.

    """
    return pickle.dumps((settings, folder, files, listener))


def main() -> None:
    """Open the store for this process, and serve until a signal or the end of the parent."""
    settings, folder, files, listener = pickle.load(sys.stdin.buffer)  # noqa: S301 (of the parent)
    set_up_memory()
    set_up_sqlite()
    log = configure_logs()
    shared = folder if is_ours(folder) else None
    telemetry = Telemetry(log, settings, shared)
    try:
        require_files(settings.database, files)
        store = open_store_of(settings, telemetry)
    except PlantStoreError as error:
        # The parent opened the store before, so the failure is new. It tries again, and the other
        # workers continue meanwhile.
        log.write(f"plantstore: {error.explanation}\n")
        sys.exit(1)
    turnstile = Turnstile(shared) if shared and has_one_writer(settings.database) else NO_TURNSTILE
    run_process(settings, store, telemetry, socket.socket(fileno=listener), turnstile)


if __name__ == "__main__":
    main()
