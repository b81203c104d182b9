"""The command line, run as a user would."""

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

from support.service import PLANTSTORE


def run(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `plantstore` in a folder; return its status and output."""
    return subprocess.run(
        [*PLANTSTORE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        **options,
    )


# Runs a command as a user without privileges, because file modes do not prevent root from writing.
# The user may read every file, because the interpreter may be in a private folder.
_UNPRIVILEGED = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
    *("--bounding-set=-all,+dac_read_search", "--"),
]


def run_unprivileged(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `plantstore` as `run` does, but without the privileges of root."""
    return subprocess.run(
        [*(_UNPRIVILEGED if os.geteuid() == 0 else []), *PLANTSTORE, *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


def peak_kib(folder: Path, *arguments: str) -> int:
    """Run `plantstore` in a folder; return its peak resident memory in KiB.

    The process reads its own VmHWM. The value of `wait4` includes memory of the parent.
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
