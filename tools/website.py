"""Builds the documents as a website into `site/`: `make site`.

The pages link to files of the whole project. So a copy of all documents, and of the files that they
link to, has the same folders as the project, and MkDocs checks every link in it.
"""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).parents[1]
SITE = ROOT / "site"

# Besides the documents, what they link to.
UNITS = (".service", ".timer")
SHOWN = (".md", ".svg", ".png", ".py", ".mjs", ".csv", ".yml", ".yaml", ".json", *UNITS)
FOLDERS = ("docs/", "benchmarks/", "examples/", "deploy/", "src/plantstore/web/page", "tests/")
ROOT_FILES = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "LICENSE")

# The theme shows each row of a table on one line, so most columns would be out of sight.
STYLE = """\
.wy-nav-content { max-width: 1100px; }
.wy-table-responsive table td, .wy-table-responsive table th { white-space: normal; }
.wy-table-responsive table code { white-space: normal; overflow-wrap: anywhere; }
"""

CONFIG = """\
site_name: Plant Store
docs_dir: {pages}
site_dir: {site}
theme: {{name: readthedocs, highlightjs: false}}
extra_css: [style.css]
validation: {{nav: {{omitted_files: ignore}}, links: {{unrecognized_links: warn, anchors: warn}}}}
nav:
  - Plant Store: README.md
  - Getting started: docs/getting-started.md
  - API by example: docs/api.md
  - Error numbers: docs/errors.md
  - Operating: docs/operations.md
  - PostgreSQL and clusters: docs/postgresql.md
  - Reverse proxies: docs/reverse-proxy.md
  - Containers: docs/container.md
  - Settings and the command line: docs/settings.md
  - Non-goals: docs/non-goals.md
  - Contributing: CONTRIBUTING.md
  - Architecture: docs/internals/architecture.md
  - Decisions: docs/internals/decisions/README.md
  - Benchmarks: benchmarks/README.md
  - Releasing: docs/internals/releasing.md
  - Changes: CHANGELOG.md
"""


def main() -> int:
    listed = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, check=True, capture_output=True, text=True
    ).stdout.splitlines()
    with tempfile.TemporaryDirectory() as folder:
        pages = Path(folder) / "pages"
        for name in listed:
            if name in ROOT_FILES or (name.startswith(FOLDERS) and name.endswith(SHOWN)):
                (pages / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(ROOT / name, pages / name)
        (pages / "style.css").write_text(STYLE, encoding="utf-8")
        config = Path(folder) / "mkdocs.yml"
        config.write_text(CONFIG.format(pages=pages, site=SITE), encoding="utf-8")
        # `--quiet` would hide the warnings from `--strict`, too.
        command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
        return subprocess.run([*command, "--config-file", config], check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
