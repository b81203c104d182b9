"""The targets of the Makefile: their output, and their behavior if a program is missing."""

import os
import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from support.command import run_program

ROOT = Path(__file__).parents[2]

# Acts as Python with python3-venv. The Python of the environment writes its arguments to `asked`.
PYTHON = """\
#!/bin/sh
case "$*" in
-c*) exit 0 ;;
"-m venv --clear .venv") ;;
*) exit 9 ;;
esac
rm -rf .venv
mkdir -p .venv/bin
printf '#!/bin/sh\\necho "$@" >> asked\\n' > .venv/bin/python
chmod +x .venv/bin/python
"""

# Acts as Python on Debian without python3-venv: it leaves an environment without pip.
PYTHON_WITHOUT_VENV = PYTHON.replace('echo "$@" >> asked', "exit 1") + "exit 1\n"


def make(folder: Path, *words: str, path: str | None = None) -> subprocess.CompletedProcess[str]:
    program = shutil.which("make")
    assert program is not None
    # If make runs the tests, it passes its own options and variables on to this make.
    env = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    return run_program(
        program, *words, cwd=folder, env=env if path is None else env | {"PATH": path}
    )


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """Return a folder with the files that `make run` needs, and a Python with the module venv."""
    for name in ("Makefile", "pyproject.toml", "requirements/run.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        shutil.copy(ROOT / name, tmp_path / name)
    put_python(tmp_path, PYTHON)
    return tmp_path


def put_python(checkout: Path, script: str) -> None:
    (checkout / "python").write_text(script, encoding="utf-8")
    (checkout / "python").chmod(0o755)


def install(checkout: Path) -> subprocess.CompletedProcess[str]:
    """Run the installation that `make run` does before it serves."""
    return make(checkout, ".venv/.run", "PYTHON=./python")


def test_without_the_module_venv_make_says_what_to_install_and_works_once_it_is_installed(
    checkout: Path,
) -> None:
    put_python(checkout, PYTHON_WITHOUT_VENV)
    failed = install(checkout)
    put_python(checkout, PYTHON)

    result = install(checkout)

    assert failed.returncode != 0
    assert "apt-get install python3-venv" in failed.stderr
    assert result.returncode == 0, result.stderr
    assert "-m pip install" in (checkout / "asked").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    ("damage", "is_created_again"),
    [
        ("true", False),
        ("rm .venv/.made .venv/.run", True),
        ("ln -sf /nowhere/python3.11 .venv/bin/python", True),
    ],
    ids=["complete", "incomplete", "without its python"],
)
def test_an_environment_is_created_again_if_it_is_incomplete_or_its_python_was_removed(
    checkout: Path, damage: str, *, is_created_again: bool
) -> None:
    assert install(checkout).returncode == 0
    subprocess.run(["sh", "-c", f"rm asked; {damage}"], cwd=checkout, check=True)

    result = install(checkout)

    assert result.returncode == 0, result.stderr
    assert (checkout / "asked").exists() is is_created_again


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([".venv/.run", "PYTHON=no-such-python"], "apt-get install python3 python3-venv"),
        (["npm"], r"apt-get install.* npm\b"),
        (["programs"], r"apt-get install.* curl\b"),
        (["project-programs"], r"apt-get install.* systemd\b"),
        (["image", "BUILDER="], "Install buildah, podman or docker"),
        # --assume-old prevents the installation of .venv/.dev.
        (["test-pythons", "PYTHONS=3.1", "--assume-old=.venv/.dev"], r"not tested: Python 3\.1\."),
    ],
    ids=lambda each: each[0] if isinstance(each, list) else "",
)
def test_without_a_program_make_fails_and_says_what_to_install(
    checkout: Path, words: list[str], said: str
) -> None:
    programs = checkout / "programs"
    programs.mkdir()
    for program in ("sh", "id", "test"):
        found = shutil.which(program)
        assert found is not None
        (programs / program).symlink_to(found)

    result = make(checkout, *words, path=str(programs))

    assert result.returncode != 0
    assert re.search(said, result.stderr)


def test_the_lower_bounds_of_the_dependencies_are_the_versions_that_test_minimum_installs() -> None:
    with (ROOT / "pyproject.toml").open("rb") as file:
        project = tomllib.load(file)["project"]
    locked = (ROOT / "requirements/minimum.txt").read_text(encoding="utf-8")
    declared = [*project["dependencies"], *project["optional-dependencies"]["postgres"]]

    for requirement in map(Requirement, declared):
        [lowest] = [each.version for each in requirement.specifier if each.operator == ">="]
        [version] = re.findall(rf"^{requirement.name}==(\S+)", locked, re.MULTILINE)
        assert version in SpecifierSet(f"=={lowest}.*"), requirement


@pytest.mark.parametrize("folder", ["tools/javascript", "benchmarks/peers"])
def test_the_lock_file_of_npm_names_no_registry(folder: str) -> None:
    lock = (ROOT / folder / "package-lock.json").read_text(encoding="utf-8")

    assert '"integrity"' in lock
    assert '"resolved"' not in lock
