"""Write what is generated from the code: `python tools/documents.py`.

openapi.py makes web/openapi.json. README.md has a table of its operations, and docs/postgresql.md
the number of connections. tests/test_docs.py compares the files with the code.
"""

import json
from pathlib import Path
from typing import Any, TypeAlias

import openapi
from plantstore.api.exports import EXPORTS_MAX, READING_THREADS
from plantstore.store import POSTGRES_CONNECTIONS_MAX

Node: TypeAlias = dict[str, Any]

ROOT = Path(__file__).parent.parent
INTERFACE = openapi.make_document()

# Each export has a snapshot. Before it, the threads may search for empty tags.
CONNECTIONS = POSTGRES_CONNECTIONS_MAX + EXPORTS_MAX + READING_THREADS
MAX_CONNECTIONS = (
    f"`max_connections` must be at least {CONNECTIONS} for each worker of all instances, plus some"
    " for operators.\n"
)


def with_part(path: str, name: str, text: str) -> str:
    """Return a page with a new text between the marks of this name."""
    page = (ROOT / path).read_text("utf-8")
    mark, end = f"<!-- {name} -->\n", f"<!-- end of {name} -->"
    return f"{page.partition(mark)[0]}{mark}{text}{page[page.index(end) :]}"


def readme() -> str:
    """Return README.md with the table of all operations but POST /plants, which it describes."""
    added = {name: each for name, each in operations().items() if "plants" not in each["tags"]}
    rows = [[f"`{name}`", each["summary"]] for name, each in added.items()]
    return with_part("README.md", "operations", table(["operation", "what it does"], rows))


def postgresql() -> str:
    return with_part("docs/postgresql.md", "connections", MAX_CONNECTIONS)


def document() -> str:
    return json.dumps(INTERFACE, ensure_ascii=False, indent=2) + "\n"


def operations() -> dict[str, Node]:
    """Return the operations but HEAD and OPTIONS, by their names."""
    return {
        f"{method.upper()} {path}": operation
        for path, item in INTERFACE["paths"].items()
        for method, operation in item.items()
        if method not in ("head", "options")
    }


def table(head: list[str], rows: list[list[str]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


PAGES = {
    ROOT / "README.md": readme,
    ROOT / "docs/postgresql.md": postgresql,
    ROOT / "src/plantstore/web/openapi.json": document,
}

if __name__ == "__main__":
    for page, make in PAGES.items():
        page.write_text(make(), encoding="utf-8")
