"""The command `plantstore`, whose threads have their names in the kernel too, under /proc.

Python 3.14 sets these names by itself.
"""

import sys
import threading
from pathlib import Path
from types import FrameType

from plantstore.cli import main


def name_thread(_frame: FrameType, _event: str, _argument: object) -> None:
    """Name the current thread. It is called once in each thread, at its first event."""
    sys.setprofile(None)
    name = threading.current_thread().name.encode()[:15]
    Path(f"/proc/self/task/{threading.get_native_id()}/comm").write_bytes(name)


if __name__ == "__main__":
    threading.setprofile(name_thread)  # of the threads that start from now on
    sys.exit(main())
