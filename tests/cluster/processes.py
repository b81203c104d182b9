"""Programs that run until a block ends, and the processes of a PostgreSQL data folder."""

import contextlib
import os
import signal
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Self

from support.postgres import NOBODY, wait_until


def unprivileged(command: Sequence[str]) -> list[str]:
    """Return a command that runs as the user of PostgreSQL, and may still read Python's files.

    PostgreSQL refuses to run as root, and Patroni starts it as its own user. That user cannot read
    root's folders, so the command keeps the one capability that allows this.
    """
    if os.geteuid():
        return list(command)
    user = [f"--reuid={NOBODY}", f"--regid={NOBODY}", "--clear-groups"]
    return ["setpriv", *user, "--inh-caps=+dac_override", "--ambient-caps=+dac_override", *command]


class Process:
    """A program with a log file; it is killed when the block ends."""

    def __init__(self, folder: Path, name: str, *command: str) -> None:
        self.folder = folder
        self.log = folder / f"{name}.log"
        self.command = unprivileged(command)
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.kill()

    def start(self) -> None:
        assert self._process is None
        env = {name: value for name, value in os.environ.items() if "PATRONI" not in name}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                self.command, stdout=log, stderr=log, cwd=self.folder, env=env
            )

    @property
    def is_running(self) -> bool:
        return self._process is not None and self._process.poll() is None

    def stop(self, seconds: float = 60) -> None:
        """Terminate the program and wait for its end."""
        if self._process is not None:
            self._process.terminate()
            self._process.wait(seconds)
            self._process = None

    def kill(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait(60)
            self._process = None

    def send(self, with_signal: signal.Signals) -> None:
        if self._process is not None:
            self._process.send_signal(with_signal)


def working_in(folder: Path) -> set[int]:
    """Return the ids of the processes whose working directory is a folder.

    PostgreSQL's processes have their data folder as working directory, even without their parent.
    """
    found = set()
    for process in Path("/proc").iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and (process / "cwd").readlink() == folder:
                found.add(int(process.name))
    return found


def send_to(pids: set[int], with_signal: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, with_signal)


def kill_all_in(folder: Path) -> None:
    """Kill all PostgreSQL processes, as a power failure would, and remove their shared memory."""

    def is_over() -> bool:
        pids = working_in(folder)
        send_to(pids, signal.SIGKILL)
        return not pids

    memory = list(_shared_memory(folder))
    wait_until(is_over)
    for id_ in memory:
        subprocess.run(["ipcrm", "-m", id_], check=False, capture_output=True)


def _shared_memory(folder: Path) -> Iterator[str]:
    with contextlib.suppress(FileNotFoundError):
        lines = (folder / "postmaster.pid").read_text(encoding="ascii").splitlines()
        if len(lines) > 6 and lines[6].split():
            yield lines[6].split()[1]
