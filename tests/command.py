"""The command line, run as a user would."""

import subprocess
from pathlib import Path
from typing import Any

from service import PLANTSTORE


def run(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `plantstore` in a folder, and return what it said, whatever its status."""
    return subprocess.run(
        [*PLANTSTORE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )
