"""How a process that serves stops."""

import asyncio
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable
from multiprocessing.process import BaseProcess
from types import FrameType
from typing import Any, Final

_STOP_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM)


class Shutdown:
    """What a signal to stop does in a process that serves.

    The service is not ready at once, and goes on serving while a load balancer takes
    note; then uvicorn stops it in good order. A second signal ends the process there
    and then, which loses nothing that was acknowledged.

    Args:
        drain_seconds: how long it goes on serving.
        on_stop: is called when it is not ready any more.

    """

    def __init__(self, drain_seconds: float, on_stop: Callable[[], None]) -> None:
        self._drain_seconds = drain_seconds
        self._on_stop = on_stop
        self._was_told = False

    def take_over(self) -> None:
        """Put this before what uvicorn does with the signals; called on the running event loop."""
        self._loop = asyncio.get_running_loop()
        self._uvicorn: Any = {number: signal.getsignal(number) for number in _STOP_SIGNALS}
        for number in _STOP_SIGNALS:
            signal.signal(number, self._on_signal)
        parent = multiprocessing.parent_process()
        self._is_worker = parent is not None
        if parent is not None:
            threading.Thread(target=_stop_with, args=(parent,), daemon=True).start()

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if not self._was_told:
            self._was_told = True
            self._loop.call_soon_threadsafe(self._drain, number, frame)
        elif not self._is_worker:  # A worker gets a Ctrl-C from the terminal and from its parent.
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _drain(self, number: int, frame: FrameType | None) -> None:
        self._on_stop()
        self._loop.call_later(self._drain_seconds, self._uvicorn[number], number, frame)


def _stop_with(parent: BaseProcess) -> None:
    """Stop this worker when its parent is gone, or it would hold the port for ever."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
