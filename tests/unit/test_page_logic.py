"""The logic of the page in JavaScript, without a browser: `tests/page`, in Playwright's Node.js."""

import subprocess
from pathlib import Path

import playwright

ROOT = Path(__file__).parents[2]
NODE = Path(playwright.__file__).parent / "driver/node"


def test_the_logic_of_the_page_passes_its_tests_in_node() -> None:
    files = sorted(str(file) for file in (ROOT / "tests/page").glob("*.test.js"))

    done = subprocess.run(
        [NODE, "--import", "./tests/page/tab.js", "--test", *files],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert files
    assert done.returncode == 0, done.stdout + done.stderr
