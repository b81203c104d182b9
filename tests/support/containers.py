"""Buildah and Podman with their own storage, and a base image built from Debian packages."""

import contextlib
import os
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from plantstore import __version__
from support.command import output_of, run_program
from support.fronts import free_port
from support.postgres import wait_until
from support.service import Client

IMAGE: Final = f"plantstore:{__version__}"
ROOT = Path(__file__).parents[2]
TOOLS: Final = ("buildah", "podman", "runc", "debootstrap")

# Files that pip needs if the machine has its own certificates or its own package index.
PIP_FILES: Final = ("/etc/ssl/certs", "/etc/pip.conf")

STORAGE: Final = """\
[storage]
driver = "overlay"
graphroot = "{folder}/images"
runroot = "{folder}/run"
"""

# Settings that work on a machine without systemd and without its own control groups. Containers
# share the network of the machine, so that a test can reach them on the loopback address.
SETTINGS: Final = """\
[containers]
netns = "host"
env = ["PLANTSTORE_PORT={port}"]
log_driver = "k8s-file"
[engine]
runtime = "runc"
lock_type = "file"
cgroup_manager = "cgroupfs"
events_logger = "file"
tmp_dir = "{folder}/tmp"
"""


# Without these options Podman raises the limits above what root may have inside a sandbox.
LIMITS: Final = ("--ulimit=nofile=1024:1024", "--ulimit=nproc=1024:1024")

# The options with which docs/container.md runs the service.
UNPRIVILEGED: Final = (
    "--read-only",
    "--tmpfs=/tmp",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--ulimit=core=0",
    *LIMITS,
)


class Running(NamedTuple):
    """A running service container, a client, and the Podman options for a container beside it."""

    name: str
    client: Client
    beside: tuple[str, ...]


class Containers:
    """Images and containers that are stored in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.port = free_port()  # the default port of the containers
        for name, text in {"storage.conf": STORAGE, "containers.conf": SETTINGS}.items():
            (folder / name).write_text(text.format(folder=folder, port=self.port), "utf-8")
        self.variables = {
            "CONTAINERS_STORAGE_CONF": str(folder / "storage.conf"),
            "CONTAINERS_CONF": str(folder / "containers.conf"),
            "BUILDAH_ISOLATION": "chroot",
        }

    def podman(self, *arguments: str) -> str:
        """Run Podman, which must succeed; return its output."""
        return self._make("podman", *arguments)

    def try_podman(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """Run Podman; return its status and output."""
        env = os.environ | self.variables
        return run_program("podman", *arguments, cwd=ROOT, env=env, timeout=900)

    @contextlib.contextmanager
    def serving(self, *options: str) -> Iterator[Running]:
        """Run the service without privileges on a new volume, and create a token."""
        name, port = f"plantstore-{uuid.uuid4().hex}", free_port()
        beside = (*UNPRIVILEGED, f"--volume={name}:/data")
        try:
            serve = ("run", "--detach", f"--name={name}", f"--env=PLANTSTORE_PORT={port}")
            self.podman(*serve, *beside, *options, IMAGE)
            self.wait_until_healthy(name)
            secret = self.podman("exec", name, "plantstore", "token", "create", "test").strip()
            with contextlib.closing(Client(port, secret)) as client:
                yield Running(name, client, ("run", "--rm", *beside))
        finally:
            self.podman("rm", "--force", "--time=0", name)

    def wait_until_healthy(self, name: str) -> None:
        """Return when the service in a container is healthy."""

        def is_healthy() -> bool:
            state = self.podman("inspect", "--format={{.State.Status}}", name).strip()
            assert state == "running", f"{state}: {self.log(name)}"
            return self.try_podman("healthcheck", "run", name).returncode == 0

        wait_until(is_healthy)

    def log(self, name: str) -> str:
        """Return the output of a container so far."""
        result = self.try_podman("logs", name)
        return result.stdout + result.stderr

    def make_base(self) -> str:
        """Make a base image from Debian with Python; return its name."""
        root = self.folder / "debian"
        packages = "--include=python3-venv,ca-certificates"
        self._make("debootstrap", "--variant=minbase", packages, "bookworm", str(root))
        shutil.rmtree(root / "var/cache/apt")
        working = self._make("buildah", "from", "scratch").strip()
        self._make("buildah", "add", "--quiet", working, str(root), "/")
        self._make("buildah", "config", "--env", "PATH=/usr/sbin:/usr/bin:/sbin:/bin", working)
        self._make("buildah", "commit", "--quiet", "--rm", working, "localhost/debian")
        shutil.rmtree(root)
        return "localhost/debian"

    def make_image(self, base: str) -> None:
        """Build the image with `make image`, as a user does."""
        files = [file for file in PIP_FILES if Path(file).exists()]
        options = " ".join(f"--volume {file}:{file}:ro" for file in files)
        self._make("make", "image", f"BASE={base}", f"BUILD_OPTIONS={options}", "BUILDER=buildah")

    def _make(self, *command: str) -> str:
        return output_of(*command, cwd=ROOT, env=os.environ | self.variables, timeout=900)


@contextlib.contextmanager
def containers() -> Iterator[Containers]:
    """Make a folder for containers; at the end, remove the containers and the folder."""
    with tempfile.TemporaryDirectory(prefix="plantstore-containers-") as folder:
        made = Containers(Path(folder))
        try:
            yield made
        finally:
            made.podman("rm", "--all", "--force", "--time=0")
