"""The configuration in docs/postgresql.md, which the cluster of the tests uses."""

import re
from pathlib import Path
from textwrap import dedent

PAGE = Path(__file__).parents[2] / "docs/postgresql.md"


def block(name: str) -> str:
    """Return the fenced block of the page whose first line contains this file name."""
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^ *```(?!console)\w+\n(.*?)^ *```$", text, re.MULTILINE | re.DOTALL)
    [found] = [block for block in blocks if name in block.partition("\n")[0]]
    return dedent(found)


def url_of_page() -> str:
    """Return the URL of the database that the page gives the service."""
    [url] = re.findall(r"^PLANTSTORE_DATABASE='(.*)'$", block("plantstore.env"), re.MULTILINE)
    return str(url)


def on_loopback(text: str, ports: dict[str, int]) -> str:
    """Replace each `host:port` of the page by the loopback port that is used instead."""
    for address, port in ports.items():
        text = re.sub(rf"(?<![\w-]){re.escape(address)}\b", f"127.0.0.1:{port}", text)
    return text


def with_measured(text: str, measured: dict[str, list[str]]) -> str:
    """Return the page with new figures in the last cells of the rows with these names."""
    lines = text.splitlines(keepends=True)
    for number, line in enumerate(lines):
        cells = [cell.strip() for cell in line.split("|")[1:-1]]
        if cells and (figures := measured.get(cells[0])):
            cells[-len(figures) :] = figures
            lines[number] = f"| {' | '.join(cells)} |\n"
    return "".join(lines)
