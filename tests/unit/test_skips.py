"""The list of skipped tests at the end of a test run."""

import os
import subprocess
import sys
from pathlib import Path

TESTS = """
import pytest

@pytest.mark.skip(reason="needs a unicorn")
def test_with_a_mark(): ...

def test_with_a_call():
    pytest.skip("needs a unicorn")

def test_that_runs(): ...
"""


def test_a_quiet_run_ends_with_a_list_of_the_skipped_tests_and_their_reasons(
    tmp_path: Path,
) -> None:
    (tmp_path / "test_it.py").write_text(TESTS, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\n", encoding="utf-8")

    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "conftest", "test_it.py"],
        cwd=tmp_path,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )

    assert done.returncode == 0, done.stderr
    assert "1 passed, 2 skipped" in done.stdout
    said = done.stdout.partition("Tests that did not run")[2].splitlines()[1:4]
    assert said == [
        "2 not run: needs a unicorn",
        "  test_it.py::test_with_a_call",
        "  test_it.py::test_with_a_mark",
    ]
