"""A small disk that a test can fill without privileges."""

import contextlib
import itertools
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

DISK_BYTES = 4 * 1024 * 1024

# The mount is visible only in its own namespace, and ends with the last process in it. A user who
# is not root can mount in a user namespace (`man 7 user_namespaces`).
_MOUNT = 'mount -t tmpfs -o size="$1" plants "$2" && cd "$2" && echo mounted && exec cat'


class SmallDisk:
    """A disk of 4 MiB, mounted on a folder.

    Attributes:
        contents: the folder, as this process reaches it.
        command: the command prefix that runs a program with the disk as its working directory.

    """

    def __init__(self, pid: int) -> None:
        self.contents = Path(f"/proc/{pid}/cwd")
        namespaces = ["--mount"] if os.geteuid() == 0 else ["--user", "--mount"]
        self.command = ["nsenter", *namespaces, "--preserve-credentials", f"--target={pid}", "--wd"]

    def fill(self) -> None:
        """Fill the disk with a file."""
        with self._filler.open("wb", buffering=0) as file, pytest.raises(OSError, match="No space"):
            file.writelines(itertools.repeat(bytes(4096)))

    def free(self) -> None:
        """Free the space that `fill` used."""
        self._filler.unlink()

    def copy_to(self, folder: Path) -> Path:
        """Copy the files to a new folder that every process sees."""
        return Path(shutil.copytree(self.contents, folder))

    @property
    def _filler(self) -> Path:
        return self.contents / "filler"


@contextlib.contextmanager
def small_disk(folder: Path) -> Iterator[SmallDisk]:
    """Mount a small disk on a folder; skip the test if the user may not mount."""
    namespaces = ["--mount"] if os.geteuid() == 0 else ["--map-root-user", "--mount"]
    command = ["unshare", *namespaces, "sh", "-c", _MOUNT, "sh", str(DISK_BYTES), str(folder)]
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        if process.stdout.readline() != "mounted\n":
            pytest.skip(f"may not mount a small disk: {process.stderr.read().strip()}")
        yield SmallDisk(process.pid)
        process.stdin.close()  # `cat` ends
