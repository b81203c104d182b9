"""Pools of threads."""

import subprocess
import sys
import threading

from plantstore.threads import THREADS


def test_all_threads_of_a_pool_start_with_it() -> None:
    with THREADS.pool(3, "started"):
        names = [thread.name for thread in threading.enumerate()]

        assert sorted(name for name in names if name.startswith("started")) == [
            *("started_0", "started_1", "started_2"),
        ]


WITHOUT_ROOM = """
import resource, threading
from plantstore.threads import THREADS

threading.stack_size(2**28)
used = int(open("/proc/self/statm").read().split()[0]) * resource.getpagesize()
resource.setrlimit(resource.RLIMIT_AS, (used + 2**29, used + 2**29))
try:
    THREADS.pool(8, "many")
except RuntimeError:
    print("refused")
"""


def test_a_pool_whose_threads_cannot_all_start_is_refused() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_ROOM], capture_output=True, text=True, timeout=60, check=True
    )

    assert done.stdout == "refused\n"
