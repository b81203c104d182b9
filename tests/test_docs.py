"""The documentation, held against the code."""

import re
import shlex
import subprocess
from dataclasses import fields
from pathlib import Path
from typing import get_args, get_type_hints

import pytest

from plantstore.api.errors import STATUS
from plantstore.errors import ErrorCode
from plantstore.settings import Settings
from service import PLANTSTORE

ROOT = Path(__file__).parent.parent
PAGES = sorted(
    page for pattern in ("*.md", "docs/**/*.md", "benchmarks/*.md") for page in ROOT.glob(pattern)
)


def rows(page: str) -> list[list[str]]:
    """Return the cells of a page's table, without its head."""
    lines = (ROOT / page).read_text(encoding="utf-8").splitlines()
    cells = [[cell.strip() for cell in line.split("|")[1:-1]] for line in lines if line[:1] == "|"]
    return cells[2:]


def test_every_error_number_is_documented_with_its_status() -> None:
    documented = [(int(row[0]), row[1], int(row[2])) for row in rows("docs/errors.md")]

    assert documented == [(int(code), code.name, STATUS[code]) for code in sorted(ErrorCode)]


def test_every_setting_is_documented_with_its_variable_and_its_default() -> None:
    documented = [tuple(cell.strip("`") for cell in row[:3]) for row in rows("docs/settings.md")]

    assert documented == [
        (
            f"--{field.name.replace('_', '-')}",
            f"PLANTSTORE_{field.name.upper()}",
            str(field.default),
        )
        for field in fields(Settings)
    ]


def test_every_setting_takes_the_variable_of_its_name_and_says_what_it_is_for() -> None:
    for name, hint in get_type_hints(Settings, include_extras=True).items():
        _, option = get_args(hint)
        assert option.envvar == f"PLANTSTORE_{name.upper()}"
        assert option.help


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_every_link_leads_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)[^)]*\)", page.read_text(encoding="utf-8")):
        if not target.startswith("https://"):
            assert (page.parent / target).exists(), target


def test_every_decision_has_its_three_parts_and_stands_in_the_index() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text(encoding="utf-8")
    records = sorted((ROOT / "docs/decisions").glob("0*.md"))

    assert [int(record.name[:4]) for record in records] == list(range(1, len(records) + 1))
    for record in records:
        text = record.read_text(encoding="utf-8")
        assert re.findall(r"^## (.*)$", text, re.MULTILINE) == [
            "Context",
            "Decision",
            "Consequences",
        ]
        assert f"({record.name})" in index


def test_every_decision_that_the_code_names_exists() -> None:
    for source in (ROOT / "src").rglob("*.py"):
        for number in re.findall(r"docs/decisions/(\d{4})", source.read_text(encoding="utf-8")):
            assert list((ROOT / "docs/decisions").glob(f"{number}-*.md")), source


def test_every_test_that_the_pages_name_exists() -> None:
    tests = "\n".join(path.read_text(encoding="utf-8") for path in (ROOT / "tests").rglob("*.py"))

    for page in PAGES:
        for name in re.findall(r"`(test_\w+)`", page.read_text(encoding="utf-8")):
            assert f"def {name}(" in tests, f"{page}: {name}"


def commands(program: str) -> list[str]:
    """Return the commands of a program that stand behind a `$` in the pages."""
    text = "\n".join(page.read_text(encoding="utf-8") for page in PAGES)
    return sorted(set(re.findall(rf"^\$ ({program} [^#\n]*?)\s*(?:#.*)?$", text, re.MULTILINE)))


@pytest.mark.parametrize("command", commands("make"))
def test_every_make_command_of_the_pages_exists(command: str) -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")

    assert f"\n{command.split()[1]}: " in makefile


def test_the_commands_of_the_readme_work_in_their_order(tmp_path: Path) -> None:
    shown = re.findall(
        r"^\$ plantstore (.*)$",
        (ROOT / "README.md").read_text(encoding="utf-8"),
        re.MULTILINE,
    )
    (tmp_path / "plants.csv").write_text("id,name,tag\n1,Abies balsamea,Abies\n", encoding="utf-8")

    assert len(shown) == 7
    for command in shown:
        subprocess.run(
            [*PLANTSTORE, *shlex.split(command)],
            cwd=tmp_path,
            capture_output=True,
            timeout=60,
            check=True,
        )
