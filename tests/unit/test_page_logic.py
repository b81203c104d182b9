"""The logic of the page in JavaScript, without a browser: `tests/page`, in Node.js."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
NODE = shutil.which("node") or ""

# The page reads the ids in JSON as text. Node.js 20 has this behind an option, later ones always.
OPTION = "--harmony-json-parse-with-source"


def node(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [NODE, *words], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )


@pytest.mark.skipif(not NODE, reason="needs Node.js")
def test_the_logic_of_the_page_passes_its_tests_in_node() -> None:
    version = int(node("--print", "process.versions.node").stdout.partition(".")[0])
    if version < 20:
        pytest.skip(f"needs Node.js 20 or newer, not {version}")
    options = [OPTION] if version == 20 else []
    files = sorted(str(file) for file in (ROOT / "tests/page").glob("*.test.js"))

    done = node(*options, "--import", "./tests/page/tab.js", "--test", *files)

    assert files
    assert done.returncode == 0, done.stdout + done.stderr
