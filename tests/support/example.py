"""The follower in `examples`, as a process."""

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from plantstore.plants import NewPlant

FOLLOWER = Path(__file__).parents[2] / "examples" / "follow.py"


@contextlib.contextmanager
def following(port: int, token: str, file: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run the example until the block ends, and kill it."""
    command = [sys.executable, str(FOLLOWER), f"http://127.0.0.1:{port}", str(file)]
    env = os.environ | {"PLANTSTORE_TOKEN": token}
    with subprocess.Popen(command, env=env, stderr=subprocess.PIPE) as process:
        try:
            yield process
        finally:
            process.kill()


def copied(file: Path) -> list[NewPlant]:
    """Return the plants in the file of the example."""
    if not file.exists():
        return []
    _, *lines = file.read_text().split("\n")
    return sorted((NewPlant(**json.loads(line)) for line in lines), key=lambda plant: plant.id)
