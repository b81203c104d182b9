"""The deployment files, checked against schemas, the settings and each other."""

import os
import re
import shlex
import shutil
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
import yaml

from plantstore import __version__
from plantstore.plants import NewPlant
from plantstore.settings import Settings
from plantstore.storage.postgres.primary import PARAMETERS_DEFAULT
from plantstore.storage.postgres.session import GRACE_SECONDS
from support.command import output_of, run_program
from support.service import PLANTSTORE, opened, stored_plants

ROOT = Path(__file__).parents[2]
UNIT = ROOT / "deploy/plantstore.service"
BACKUP = ROOT / "deploy/plantstore-backup.service"
TIMER = ROOT / "deploy/plantstore-backup.timer"
COMMAND = ROOT / "deploy/plantstore.sh"
CONTAINERFILE = ROOT / "Containerfile"
COMPOSE = ROOT / "deploy/compose.yaml"
KUBERNETES = ROOT / "deploy/kubernetes.yaml"

PROGRAM = "/opt/plantstore/.venv/bin/plantstore"

SERVICES: dict[str, Any] = yaml.safe_load(COMPOSE.read_text("utf-8"))["services"]
SERVICE = SERVICES["plantstore"]
OBJECTS: dict[str, Any] = {
    each["kind"]: each for each in yaml.safe_load_all(KUBERNETES.read_text("utf-8"))
}
DEPLOYMENT = OBJECTS["Deployment"]["spec"]
POD = DEPLOYMENT["template"]["spec"]
[CONTAINER] = POD["containers"]
[MIGRATION] = POD["initContainers"]
VARIABLES = {each["name"]: each for each in CONTAINER["env"]}
DRAIN_SECONDS = int(VARIABLES["PLANTSTORE_DRAIN_SECONDS"]["value"])

# Ten times the exposure level that `systemd-analyze security` of systemd 252 reports: 1.2. Most of
# it is due to network access to any address, which a remote database or proxy needs.
EXPOSURE_MAX = 12


def analyze(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return run_program("systemd-analyze", "--no-pager", *arguments)


def version() -> int:
    """Return the version of systemd, or 0 if it is not installed."""
    if shutil.which("systemd-analyze") is None:
        return 0
    said = re.match(r"systemd (\d+)", analyze("--version").stdout)
    return int(said[1]) if said else 0


# The first version that can analyze a unit file without a running system.
needs_systemd = pytest.mark.skipif(version() < 250, reason="needs systemd-analyze, 250 or newer")


def assigned(name: str, unit: Path = UNIT) -> list[str]:
    """Return the values that a unit assigns to a name."""
    text = unit.read_text(encoding="utf-8")
    return re.findall(rf"^{name}=(.*)$", text, re.MULTILINE)


@needs_systemd
def test_systemd_accepts_the_units_without_a_warning_and_their_exposure_stays_below_the_limit(
    tmp_path: Path,
) -> None:
    units = [tmp_path / each.name for each in (UNIT, BACKUP, TIMER)]
    for unit in units:
        text = (UNIT.parent / unit.name).read_text(encoding="utf-8")
        unit.write_text(text.replace(f"={PROGRAM} ", "=/bin/true "), encoding="utf-8")

    verified = analyze("verify", "--man=no", "--recursive-errors=no", *units)
    secured = [
        analyze("security", "--offline=true", f"--threshold={EXPOSURE_MAX}", unit)
        for unit in (UNIT, BACKUP)
    ]

    assert verified.returncode == 0, verified.stderr
    assert "plantstore" not in verified.stderr  # it may contain warnings about other units
    assert [each.returncode for each in secured] == [0, 0], secured


def test_the_backup_unit_copies_the_database_of_the_service_to_a_file_for_the_day_of_the_week(
    tmp_path: Path,
) -> None:
    for name in ("User", "Environment", "EnvironmentFile", "StateDirectoryMode", "UMask"):
        assert assigned(name, BACKUP) == assigned(name)
    [folder] = assigned("StateDirectory")
    assert assigned("WorkingDirectory", BACKUP) == [f"/var/lib/{folder}"]
    assert assigned("StateDirectory", BACKUP) == [f"{folder} {folder}/backups"]
    [command] = assigned("ExecStart", BACKUP)
    # systemd replaces %% and $$ (systemd.unit(5), systemd.service(5)).
    command = command.replace("%%", "%").replace("$$", "$").replace(PROGRAM, shlex.join(PLANTSTORE))
    (tmp_path / "backups").mkdir()
    with opened(f"sqlite:///{tmp_path}/plants.db") as store:
        store.apply_changes([NewPlant(1, "a")])

    for _ in range(2):  # the second copy replaces the first one
        output_of(*shlex.split(command), cwd=tmp_path)

    [copy] = (tmp_path / "backups").iterdir()
    assert re.fullmatch(r"[1-7]\.db", copy.name)
    assert stored_plants(f"sqlite:///{copy}") == {1: NewPlant(1, "a")}


def test_the_command_of_the_deployment_uses_the_settings_and_the_folder_of_the_service(
    tmp_path: Path,
) -> None:
    [folder] = assigned("StateDirectory")
    [settings] = assigned("EnvironmentFile")
    [user] = assigned("User")
    text = COMMAND.read_text(encoding="utf-8")
    for shown, ours in {
        f"/var/lib/{folder}\n": f"{tmp_path}\n",
        settings.removeprefix("-"): f"{tmp_path}/settings.env",
        f"runuser -u {user} -- {PROGRAM}": shlex.join(PLANTSTORE),
    }.items():
        assert shown in text
        text = text.replace(shown, ours)
    command = ("sh", "-c", text, "plantstore", "migrate")

    by_default = output_of(*command)

    assert "sqlite:///plants.db" in by_default
    assert (tmp_path / "plants.db").exists()
    # As systemd.exec(5) reads them. A shell would run a part of the value without quotes.
    for number, shape in enumerate(["={}", "='{}'", '="{}"', "={} ", " = '{}' \r\n"]):
        name = f"a; & $HOME `{number}`=.db"
        value = shape.format(f"sqlite:///{name}")
        settings_lines = f"# rates\n PLANTSTORE_DATABASE{value}"
        (tmp_path / "settings.env").write_text(settings_lines)
        assert f"sqlite:///{name}" in output_of(*command)
        assert (tmp_path / name).exists()
    # Settings that cannot be read are not the default ones.
    (tmp_path / "settings.env").unlink()
    (tmp_path / "settings.env").mkdir()
    assert run_program(*command).returncode != 0


@pytest.mark.parametrize(
    "file", [UNIT, BACKUP, CONTAINERFILE, COMPOSE, KUBERNETES], ids=lambda f: f.name
)
def test_every_plantstore_variable_in_a_deployment_file_is_a_setting(file: Path) -> None:
    named = set(re.findall(r"PLANTSTORE_\w+", file.read_text(encoding="utf-8")))

    assert named
    assert named <= {f"PLANTSTORE_{field.name.upper()}" for field in fields(Settings)}


def test_systemd_compose_and_kubernetes_wait_for_the_longest_stop_before_they_kill() -> None:
    # The maximum duration of the last commit if the database hangs: its statement_timeout, the
    # grace periods for the statement and for its cancellation, and another attempt to connect.
    commit_seconds = 10 + 2 * GRACE_SECONDS + int(PARAMETERS_DEFAULT["connect_timeout"])
    stop_seconds = Settings().stop_seconds + 2 * commit_seconds

    [unit_seconds] = assigned("TimeoutStopSec")

    assert int(unit_seconds) >= stop_seconds
    assert SERVICE["stop_grace_period"] == f"{unit_seconds}s"
    assert POD["terminationGracePeriodSeconds"] == int(unit_seconds) + DRAIN_SECONDS


@pytest.mark.parametrize(
    ("program", "options", "file"),
    [
        ("check-jsonschema", ["--builtin-schema", "vendor.compose-spec"], COMPOSE),
        ("kubernetes-validate", ["--strict"], KUBERNETES),
    ],
    ids=["compose", "kubernetes"],
)
def test_the_compose_and_kubernetes_files_match_their_schemas(
    program: str, options: list[str], file: Path
) -> None:
    result = run_program(Path(sys.executable).with_name(program), *options, file)

    assert result.returncode == 0, result.stdout + result.stderr


def test_each_deployment_file_names_the_image_that_make_builds() -> None:
    env = {name: value for name, value in os.environ.items() if name not in {"IMAGE", "BASE"}}
    made = output_of("make", "--dry-run", "image", "BUILDER=podman", cwd=ROOT, env=env)

    shown = re.findall(r"plantstore:\d[\d.]*\d", (ROOT / "docs/container.md").read_text("utf-8"))
    named = {SERVICE["image"], CONTAINER["image"], MIGRATION["image"], *shown}
    assert named == {f"plantstore:{__version__}"}
    assert f" --tag plantstore:{__version__} " in " ".join(made.split())
