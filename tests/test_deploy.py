"""The unit of systemd, held against systemd and against the settings."""

import re
import shutil
import subprocess
from dataclasses import fields
from pathlib import Path

import pytest

from plantstore.settings import Settings
from plantstore.storage.postgres_connection import GRACE_SECONDS
from plantstore.storage.postgres_url import PARAMETERS_DEFAULT

UNIT = Path(__file__).parent.parent / "deploy/plantstore.service"
PROGRAM = "/opt/plantstore/.venv/bin/plantstore"

# Ten times what `systemd-analyze security` of systemd 252 says: 1.2. Most of what is left is that
# the service is on the network, and takes any address, for a database or a proxy elsewhere.
EXPOSURE_MAX = 12


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["systemd-analyze", "--no-pager", *arguments],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def version() -> int:
    """Return the version of systemd, or 0 where there is none."""
    if shutil.which("systemd-analyze") is None:
        return 0
    said = re.match(r"systemd (\d+)", analyze("--version").stdout)
    return int(said[1]) if said else 0


# The first that looks at a file rather than at a running system.
needs_systemd = pytest.mark.skipif(version() < 250, reason="needs systemd-analyze, 250 or newer")


def assigned(name: str) -> list[str]:
    """Return the values that the unit gives to a name."""
    text = UNIT.read_text(encoding="utf-8")
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


@needs_systemd
def test_systemd_takes_the_unit_without_a_warning(tmp_path: Path) -> None:
    unit = tmp_path / UNIT.name
    text = UNIT.read_text(encoding="utf-8")
    unit.write_text(text.replace(f"={PROGRAM} ", "=/bin/true "), encoding="utf-8")

    result = analyze("verify", "--man=no", "--recursive-errors=no", unit)

    assert result.returncode == 0, result.stderr
    assert UNIT.name not in result.stderr  # of other units of the machine it may say something


@needs_systemd
def test_the_unit_exposes_no_more_than_it_must() -> None:
    result = analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", UNIT)

    assert result.returncode == 0, result.stdout


def test_the_unit_runs_the_service() -> None:
    assert assigned("ExecStart") == [f"{PROGRAM} serve"]


def test_every_variable_that_the_unit_names_is_a_setting() -> None:
    named = set(re.findall(r"PLANTSTORE_\w+", UNIT.read_text(encoding="utf-8")))

    assert named
    assert named <= {f"PLANTSTORE_{field.name.upper()}" for field in fields(Settings)}


def test_the_unit_keeps_the_store_in_its_own_folder() -> None:
    [folder] = assigned("StateDirectory")

    assert assigned("Environment") == [f"PLANTSTORE_DATABASE=sqlite:////var/lib/{folder}/plants.db"]


def test_systemd_waits_longer_for_a_stop_than_a_stop_takes() -> None:
    # What a server that hangs takes of the last commit: the statement_timeout that it is given,
    # the grace beyond it and for its cancellation, and another try to connect.
    commit_seconds = 10 + 2 * GRACE_SECONDS + int(PARAMETERS_DEFAULT["connect_timeout"])

    [timeout_seconds] = assigned("TimeoutStopSec")

    assert int(timeout_seconds) >= Settings().stop_seconds + 2 * commit_seconds
