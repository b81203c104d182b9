"""The threads of the application. They are made here, so a simulation can schedule them."""

import threading
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from queue import SimpleQueue
from typing import Any, Final


class Threads:
    """Makes threads, and what they wait for."""

    def start(self, run: Callable[[], None], name: str) -> Callable[[], None]:
        """Run a function on a thread of its own; return a function that waits for its end."""
        thread = threading.Thread(target=run, name=name, daemon=True)
        thread.start()
        return thread.join

    def pool(self, number: int, name: str) -> Executor:
        """Return an executor with this number of threads, all of which have started.

        So no request needs a new thread. When the address space is exhausted, none could start, and
        the executor by itself starts a thread only when it is first needed.

        Raises:
            RuntimeError: a thread cannot start.

        """
        threads = ThreadPoolExecutor(number, thread_name_prefix=name)
        have_started = threading.Barrier(number + 1)
        try:
            for _ in range(number):
                threads.submit(have_started.wait)
        except RuntimeError:
            have_started.abort()  # the others would wait forever
            raise
        have_started.wait()
        return threads

    def queue(self) -> "SimpleQueue[Any]":
        """Return a queue between a thread and others."""
        return SimpleQueue()

    def event(self) -> threading.Event:
        """Return an event for which a thread waits."""
        return threading.Event()

    def sleep(self, seconds: float) -> None:
        """Let a thread wait."""
        time.sleep(seconds)


THREADS: Final = Threads()
