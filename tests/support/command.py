"""The command line, run as a user would."""

import contextlib
import os
import pty
import subprocess
from pathlib import Path
from typing import Any

from support.forks import ForkedProcess
from support.service import PLANTSTORE


def run_program(
    *command: str | Path, timeout: float = 120, **options: Any
) -> subprocess.CompletedProcess[str]:
    """Run a program; return its status and output."""
    return subprocess.run(
        [str(word) for word in command],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        **options,
    )


def output_of(*command: str | Path, **options: Any) -> str:
    """Run a program that must succeed; return its output."""
    done = run_program(*command, **options)
    assert done.returncode == 0, f"{command}: {done.stdout}{done.stderr}"
    return done.stdout


def run(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[str]:
    """Run `plantstore` in a folder; return its status and output."""
    return run_program(*PLANTSTORE, *arguments, cwd=folder, **options)


def call(folder: Path, *arguments: str, **env: str) -> subprocess.CompletedProcess[str]:
    """Do what `run` does, but in a forked process, which saves most of the time."""
    process = ForkedProcess(arguments, folder, os.environ | env)
    with process.stdout as said, process.stderr as complained:
        output = said.read(), complained.read()
    return subprocess.CompletedProcess(arguments, process.wait(120), *output)


def on_terminal(folder: Path, *command: str, **env: str) -> str:
    """Run a program with stderr on a terminal until it ends or serves; return what it shows."""
    ours, theirs = pty.openpty()
    base = {name: value for name, value in os.environ.items() if name != "NO_COLOR"}
    with subprocess.Popen(
        command,
        cwd=folder,
        env=base | {"TERM": "xterm-256color"} | env,
        stdout=subprocess.DEVNULL,
        stderr=theirs,
    ) as process:
        os.close(theirs)
        shown = b""
        # Linux raises an error when the process has closed the terminal.
        with contextlib.suppress(OSError):
            while b"accepting plants" not in shown:
                shown += os.read(ours, 100_000)
        process.terminate()
    os.close(ours)
    return shown.decode()


# Runs a command as a user without privileges, because file modes do not prevent root from writing.
# The user may read every file, because the interpreter may be in a private folder.
_UNPRIVILEGED = [
    *("setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"),
    *("--inh-caps=-all,+dac_read_search", "--ambient-caps=-all,+dac_read_search"),
    *("--bounding-set=-all,+dac_read_search", "--"),
]


def run_unprivileged(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run `plantstore` as `run` does, but without the privileges of root."""
    user = _UNPRIVILEGED if os.geteuid() == 0 else []
    return run_program(*user, *PLANTSTORE, *arguments, cwd=folder)
