"""Pools of threads."""

import threading
from concurrent.futures import ThreadPoolExecutor


def start_threads(number: int, name: str) -> ThreadPoolExecutor:
    """Return an executor with this number of threads, all of which have started.

    So no request needs a new thread. When the address space is exhausted, none could start, and the
    executor by itself starts a thread only when it is first needed.

    Raises:
        RuntimeError: a thread cannot start.

    """
    threads = ThreadPoolExecutor(number, thread_name_prefix=name)
    have_started = threading.Barrier(number + 1)
    for _ in range(number):
        threads.submit(have_started.wait)
    have_started.wait()
    return threads
