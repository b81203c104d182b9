"""The logic of the page in JavaScript, without a browser: `tests/page`, in Playwright's Node.js."""

import re
from pathlib import Path

import playwright
import pytest

from support.command import output_of

ROOT = Path(__file__).parents[2]
NODE = Path(playwright.__file__).parent / "driver/node"


@pytest.mark.parametrize("file", sorted(path.name for path in ROOT.glob("tests/page/*.test.js")))
def test_the_logic_of_the_page_passes_its_tests_in_node(file: str) -> None:
    said = output_of(
        NODE, "--test-force-exit", "--import", "./tab.js", file, cwd=ROOT / "tests/page"
    )

    assert " fail 0\n" in said
    assert re.search(" pass [1-9]", said)
