"""The source distribution and the wheel of `make dist`, used without the checkout; dependencies."""

import os
import re
import sys
import sysconfig
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet

from plantstore import __version__
from plantstore.storage.migrate import newest_version
from support.command import output_of
from support.service import Service

ROOT = Path(__file__).parents[2]
UV = Path(sys.executable).with_name("uv")


def run(*command: str | Path, **options: Any) -> str:
    """Run a program that must succeed and must not find our sources; return its output."""
    env = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    return output_of(*command, env=env, **options)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build as `make dist` does, but without a network; return the folder with both files."""
    folder = tmp_path_factory.mktemp("dist")
    options = ("--offline", "--no-build-isolation", "--python", sys.executable)
    run(UV, "build", *options, "--out-dir", folder, ROOT)
    return folder


@pytest.fixture(scope="module")
def wheel(built: Path) -> Path:
    return built / f"plantstore-{__version__}-py3-none-any.whl"


@pytest.fixture
def sources(built: Path, tmp_path: Path) -> Path:
    """Unpack the source distribution."""
    run("tar", "-xzf", built / f"plantstore-{__version__}.tar.gz", "-C", tmp_path)
    return tmp_path / f"plantstore-{__version__}"


@pytest.fixture
def program(wheel: Path, tmp_path: Path) -> Path:
    """Install the wheel alone into a new environment; return its program."""
    environment = tmp_path / "environment"
    run(sys.executable, "-m", "venv", "--without-pip", environment)
    python = environment / "bin/python"
    run(UV, "pip", "install", "--offline", "--no-deps", "--python", python, wheel)
    # The dependencies come from the environment of the tests. Python does not read .pth files in a
    # folder that a .pth file adds, so it does not find the checkout, which one of them names.
    packages = run(python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))").strip()
    Path(packages, "dependencies.pth").write_text(sysconfig.get_path("purelib"), "utf-8")
    location = run(python, "-c", "import plantstore; print(plantstore.__file__)", cwd=tmp_path)
    assert str(tmp_path) in location
    return python.with_name("plantstore")


def test_the_source_distribution_has_every_file_that_git_does_not_ignore(
    sources: Path, tmp_path: Path
) -> None:
    """An empty repository knows these files, so this also works in a source distribution."""
    git = ("git", f"--git-dir={tmp_path}/git", f"--work-tree={ROOT}")
    run(*git, "init", "--quiet")
    there = run(*git, "ls-files", "--others", "--exclude-standard", cwd=ROOT).splitlines()

    packed = {str(path.relative_to(sources)) for path in sources.rglob("*") if path.is_file()}

    assert packed == {*there, "PKG-INFO"}


def test_the_wheel_alone_serves_the_page_the_reference_and_plants(
    program: Path, tmp_path: Path
) -> None:
    with (
        Service(tmp_path, command=(str(program),)) as service,
        service.client(service.token()) as client,
    ):
        documents = {path: client.send("GET", path) for path in ("/", "/docs", "/openapi.json")}
        loaded = re.findall(r'(?:href|src)="(assets/[^"]+)"', "".join(map(str, documents.values())))
        assets = {path: client.send("GET", f"/{path}").status for path in loaded}
        stored = client.send("POST", "/plants", '{"id": 1, "name": "Abies alba Mill."}')

    assert {answer.status for answer in documents.values()} == {200}
    assert len(assets) >= 5
    assert set(assets.values()) == {200}
    assert stored.status == 200


@pytest.mark.parametrize("engine", ["sqlite", "postgres"])
def test_the_wheel_alone_migrates_a_database(
    program: Path, engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    database = f"sqlite:///{tmp_path}/plants.db"
    if engine == "postgres":
        database = request.getfixturevalue("databases").new()

    run(program, "migrate", "--database", database, cwd=tmp_path)

    schema = f"schema: {newest_version(engine)}\n"
    assert schema in run(program, "check", "--database", database, cwd=tmp_path)


def test_the_documents_and_the_program_name_the_version_that_is_built(wheel: Path) -> None:
    names = ("README.md", "CHANGELOG.md", "docs/internals/releasing.md")
    readme, changes, releasing = ((ROOT / name).read_text("utf-8") for name in names)

    said = run(sys.executable, "-m", "plantstore", "--version")

    assert "`pip install .`" in readme
    assert re.findall(r"\S+/(\S+\.whl)", releasing) == [wheel.name]
    assert re.findall(r"^## (\S+) ", changes, re.MULTILINE)[0] == __version__
    assert said == f"plantstore {__version__}\n"


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
