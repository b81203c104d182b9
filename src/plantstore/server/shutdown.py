"""The shutdown of a serving process."""

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
    """Handles the signals that stop a serving process.

    The service reports at once that it is not ready, and continues to serve while load
    balancers notice this. Then uvicorn shuts it down gracefully. A second signal ends the
    process immediately; no acknowledged change is lost.

    Args:
        drain_seconds: how long it continues to serve.
        on_stop: is called at once; from then on, the service is not ready.

    """

    def __init__(self, drain_seconds: float, on_stop: Callable[[], None]) -> None:
        self._drain_seconds = drain_seconds
        self._on_stop = on_stop
        self._was_told = False

    def take_over(self) -> None:
        """Handle signals before uvicorn does. Call this on the running event loop."""
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
        elif not self._is_worker:  # a worker gets one Ctrl-C twice: from terminal and parent
            signal.signal(number, signal.SIG_DFL)
            signal.raise_signal(number)

    def _drain(self, number: int, frame: FrameType | None) -> None:
        self._on_stop()
        self._loop.call_later(self._drain_seconds, self._uvicorn[number], number, frame)


def _stop_with(parent: BaseProcess) -> None:
    """Stop this worker when its parent has ended. Otherwise it would hold the port forever."""
    parent.join()
    os.kill(os.getpid(), signal.SIGTERM)
