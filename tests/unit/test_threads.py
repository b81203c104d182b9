"""Pools of threads."""

import threading

from plantstore.threads import THREADS


def test_all_threads_of_a_pool_start_with_it() -> None:
    with THREADS.pool(3, "started"):
        names = [thread.name for thread in threading.enumerate()]

        assert sorted(name for name in names if name.startswith("started")) == [
            *("started_0", "started_1", "started_2"),
        ]
