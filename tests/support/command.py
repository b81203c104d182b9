"""The command line, run as a user would."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.service import PLANTSTORE


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


# Runs a command as another user, who may read every file, since the interpreter may be in a
# private folder, but may write only what its mode allows. No mode keeps root from writing.
_UNPRIVILEGED = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
    *("--bounding-set=-all,+dac_read_search", "--"),
]


def run_unprivileged(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `plantstore` as `run` does, but not with the rights of root."""
    return subprocess.run(
        [*(_UNPRIVILEGED if os.geteuid() == 0 else []), *PLANTSTORE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def peak_kib(folder: Path, *arguments: str) -> int:
    """Run `plantstore` in a folder, and return the most memory that it had resident.

    The kernel counts for the program itself; what `wait4` tells has its parent's in it.
    """
    program = (
        "import sys; from plantstore.cli import main; assert main() == 0; "
        "print(open('/proc/self/status').read())"
    )
    said = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    ).stdout
    [peak] = re.findall(r"VmHWM:\s*(\d+) kB", said)
    return int(peak)
