"""The container image: built, run without privileges, stopped, and started again."""

import contextlib
import os
import re
import shutil
import subprocess
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pytest

from plantstore import __version__
from plantstore.plants import NewPlant
from support.command import output_of, run_program
from support.fronts import free_port
from support.postgres import Programs, Server, wait_until
from support.reader import Reader, commands, is_as_shown
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
    """A running service container, its Podman options, and a client."""

    name: str
    options: tuple[str, ...]
    client: Client


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
    def serving(self) -> Iterator[Running]:
        """Run the service without privileges on a new volume, and create a token."""
        name, port = f"plantstore-{uuid.uuid4().hex}", free_port()
        options = (*UNPRIVILEGED, f"--volume={name}:/data")
        try:
            serve = ("run", "--detach", f"--name={name}", f"--env=PLANTSTORE_PORT={port}")
            self.podman(*serve, *options, IMAGE)
            self.wait_until_healthy(name)
            secret = self.podman("exec", name, "plantstore", "token", "create", "test").strip()
            with contextlib.closing(Client(port, secret)) as client:
                yield Running(name, options, client)
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
    """Make a folder for containers; at the end, remove the containers, images and the folder."""
    with tempfile.TemporaryDirectory(prefix="plantstore-containers-") as folder:
        made = Containers(Path(folder))
        try:
            yield made
        finally:
            made.podman("system", "reset", "--force")  # it also unmounts the folder of the images


PAGE = "docs/container.md"

MISSING = [tool for tool in TOOLS if shutil.which(tool) is None]

pytestmark = [
    pytest.mark.skipif(os.geteuid() != 0, reason="needs root, which makes the base image"),
    pytest.mark.skipif(bool(MISSING), reason=f"needs {', '.join(MISSING)} of Debian"),
]

ROSA = NewPlant(1, "Rosa × damascena")


@pytest.fixture(scope="module")
def made() -> Iterator[Containers]:
    """Build the image on a new Debian base, or on the base in PLANTSTORE_TEST_BASE."""
    with containers() as made:
        made.make_image(os.environ.get("PLANTSTORE_TEST_BASE") or made.make_base())
        yield made


@pytest.fixture(scope="module")
def running(made: Containers) -> Iterator[Running]:
    with made.serving() as running:
        yield running


def test_a_container_stops_gracefully_and_has_its_plant_after_the_next_start(
    made: Containers, running: Running
) -> None:
    stored = running.client.post(ROSA)
    beside = made.podman("run", "--rm", *running.options, IMAGE, "check")
    made.podman("kill", "--signal=TERM", running.name)
    status = made.podman("wait", running.name)
    unhealthy = made.try_podman("healthcheck", "run", running.name)
    made.podman("start", running.name)
    made.wait_until_healthy(running.name)
    running.client.close()  # its connection belongs to the stopped process

    assert stored.status == 200
    assert "Plants: 1," in beside
    assert status == "0\n"
    assert unhealthy.returncode != 0
    assert running.client.post(ROSA).status == 200
    assert running.client.post(NewPlant(1, "Abies")).status == 400


def test_the_container_has_no_privileges_and_a_read_only_root_file_system(
    made: Containers, running: Running
) -> None:
    said = made.podman("exec", running.name, "cat", "/proc/1/status")
    status = dict(re.findall(r"(\w+):\t(.*)", said))
    refused = made.try_podman("exec", running.name, "touch", "/opt/plantstore/new")

    assert status["Uid"].split() == status["Gid"].split() == ["10001"] * 4
    assert {int(status[name], 16) for name in ("CapPrm", "CapEff", "CapBnd", "CapAmb")} == {0}
    assert status["NoNewPrivs"] == "1"
    assert "Read-only file system" in refused.stderr


@pytest.mark.parametrize("module", ["pip", "hatchling"])
def test_the_image_contains_no_tool_that_only_the_build_needs(
    made: Containers, running: Running, module: str
) -> None:
    result = made.try_podman("exec", running.name, "python", "-c", f"import {module}")

    assert f"No module named '{module}'" in result.stderr


def test_a_container_uses_postgresql(made: Containers, postgres_programs: Programs) -> None:
    with Server(postgres_programs, "of_a_container") as server:
        database = f"--env=PLANTSTORE_DATABASE={server.url()}"
        said = made.podman("run", "--rm", *UNPRIVILEGED, database, IMAGE, "migrate")

    assert "is up to date" in said


def test_the_commands_of_the_container_page_work_in_order(made: Containers, tmp_path: Path) -> None:
    shown = [each for each in commands(PAGE) if re.match("podman|curl", each.text)]
    assert shown

    with Reader(tmp_path, str) as reader:
        for name, value in made.variables.items():
            reader.run(f"export {name}={value}")
        # Without systemd, Podman warns that nothing runs the health check periodically.
        reader.run('podman() { command podman --log-level=fatal "$@"; }')
        for command in shown:
            text = command.text.replace("podman run", " ".join(("podman run", *LIMITS)))
            text = text.replace("http://127.0.0.1:8000", f"http://127.0.0.1:{made.port}")
            printed = reader.run(text.replace("plst_…", reader.token))

            assert reader.status == 0, f"{command.text} printed {printed}"
            is_right = not command.shown or is_as_shown(printed, command.shown)
            assert is_right, f"{command.text} printed {printed}"
            reader.token = "".join(re.findall(r"plst_\w+", printed)) or reader.token
            if re.match("podman (run|start)", command.text):
                made.wait_until_healthy("plantstore")
