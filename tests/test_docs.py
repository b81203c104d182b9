"""The documentation, checked against the code."""

import os
import re
from dataclasses import fields
from pathlib import Path

import pytest

import documents
from plantstore.api.error_responses import STATUS
from plantstore.changes import Outcome
from plantstore.errors import ErrorCode
from plantstore.settings import Settings
from plantstore.telemetry.metrics import Metrics
from support.command import run

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md") for page in ROOT.glob(pattern)
)
TEXT = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)


def rows(page: str) -> list[list[str]]:
    """Return the cells of a page's table, without the header row."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    return cells[2:]


def test_every_error_number_is_documented_with_its_status() -> None:
    documented = [(int(row[0]), row[1], int(row[2])) for row in rows("docs/errors.md")]

    assert documented == [
        (int(code), code.name.lower(), STATUS[code]) for code in sorted(ErrorCode)
    ]


def shown(default: object) -> str:
    """Return the default of a setting as an operator would write it."""
    if isinstance(default, bool):
        return "on" if default else "off"
    return "none" if default in (None, ()) else str(default)


def test_every_setting_is_documented_with_its_variable_and_its_default() -> None:
    documented = [tuple(cell.strip("`") for cell in row[:3]) for row in rows("docs/settings.md")]

    assert documented == [
        (
            f"--{field.name.replace('_', '-')}",
            f"PLANTSTORE_{field.name.upper()}",
            shown(field.default),
        )
        for field in fields(Settings)
    ]


def test_the_documented_metrics_are_those_of_the_service() -> None:
    table = (ROOT / "docs/operations.md").read_text(encoding="utf-8").partition("| metric |")[2]
    cells = [line.split("|")[1] for line in table.partition("\n\n")[0].splitlines()[2:]]

    rendered = Metrics().render().decode()

    documented = {name for cell in cells for name in re.findall(r"`(\w+)`", cell)}

    assert documented == set(re.findall(r"^# HELP (\w+)", rendered, re.MULTILINE))


def test_the_metrics_page_names_every_outcome_of_a_change() -> None:
    [row] = [each for each in rows("docs/operations.md") if "plantstore_changes_total" in each[0]]

    assert set(re.findall(r"`([a-z_]+)`", row[1])) == {"outcome", *(each.value for each in Outcome)}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_to_a_file_points_to_an_existing_file(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


@pytest.mark.parametrize(
    "name",
    ["docs/internals/architecture.md", "docs/internals/architecture.svg", "CONTRIBUTING.md"],
)
def test_every_source_file_that_a_page_about_the_code_names_exists(name: str) -> None:
    named = re.findall(r"[`> ]([a-z_/]+\.py)[`<,]", (ROOT / name).read_text(encoding="utf-8"))

    assert named
    for path in named:
        assert any((ROOT / folder / path).exists() for folder in ("src/plantstore", "")), path


def commands(program: str) -> list[str]:
    """Return the commands of a program that the pages show after a `$`."""
    return sorted(set(re.findall(rf"^ *\$ ({program} [^#\n]*?)\s*(?:#.*)?$", TEXT, re.MULTILINE)))


@pytest.mark.parametrize("command", commands("make"))
def test_every_make_command_of_the_pages_exists(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8").replace("$(VENV)", ".venv")

    assert f"\n{re.sub('-C [^ ]+ ', '', command).split()[1]}: " in makefile


@pytest.mark.parametrize("path", documents.PAGES, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_generated_page_matches_the_code(path: Path) -> None:
    made = documents.PAGES[path]()

    assert path.read_text(encoding="utf-8") == made, "run this: python tools/documents.py"


def test_the_help_of_serve_explains_every_setting_and_no_other(tmp_path: Path) -> None:
    said = run(tmp_path, "serve", "--help", env=os.environ | {"COLUMNS": "200"}).stdout

    named = re.findall(r"^  (?:-h, )?--([a-z-]+)", said, re.MULTILINE)
    settings = [field.name.replace("_", "-") for field in fields(Settings)]
    assert named == [*settings, "help"]
    assert all(field.metadata["option"].help for field in fields(Settings))


def test_every_page_is_in_the_index_of_the_docs() -> None:
    index = (ROOT / "docs/README.md").read_text(encoding="utf-8")

    for page in (ROOT / "docs").glob("*.md"):
        assert page.name == "README.md" or f"({page.name})" in index, page
