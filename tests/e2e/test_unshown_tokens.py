"""No token is created if its secret cannot be printed."""

import os
import re
import shlex
import signal
import subprocess
from pathlib import Path

import pytest

from plantstore.tokens import is_well_formed
from support.service import PLANTSTORE, Service, opened

# A redirection of stdout in the shell, and a part of the error message. The last one is a pipe
# whose reader has closed it.
UNWRITABLE = [(">/dev/full", "No space left"), (">&-", "closed"), ("| true", "Broken pipe")]


def start(folder: Path, redirection: str, *command: str, database: str) -> subprocess.Popen[str]:
    """Start a command with its stdout redirected. `| true` stands for a pipe without a reader."""
    env = os.environ | {"PLANTSTORE_DATABASE": database}
    words = shlex.join([*PLANTSTORE, *command])
    reader, writer = os.pipe()
    os.close(reader)
    shell = f"exec {words} {'' if redirection == '| true' else redirection}"
    try:
        return subprocess.Popen(
            ["sh", "-c", shell],
            cwd=folder,
            env=env,
            stdout=writer,
            stderr=subprocess.PIPE,
            text=True,
        )
    finally:
        os.close(writer)


def token_names(database: str) -> list[str]:
    with opened(database) as store:
        return [record.name for record in store.list_tokens()]


@pytest.mark.parametrize(("redirection", "said"), UNWRITABLE)
def test_token_create_with_an_unwritable_stdout_is_a_one_line_error_and_creates_no_token(
    tmp_path: Path, database: str, redirection: str, said: str
) -> None:
    with start(tmp_path, redirection, "token", "create", "a", database=database) as process:
        _, errors = process.communicate(timeout=60)

    *created, line = errors.splitlines()
    assert all(each.startswith("Created the database") for each in created)
    assert process.returncode == 1
    assert line.startswith("plantstore: ")
    assert said in line
    assert token_names(database) == []


@pytest.mark.parametrize(("redirection", "_said"), UNWRITABLE)
def test_serve_with_an_unwritable_stdout_leaves_the_first_token_to_the_next_start(
    tmp_path: Path, database: str, redirection: str, _said: str
) -> None:
    with start(tmp_path, redirection, "serve", "--port", "0", database=database) as process:
        assert process.stderr is not None
        warned = ""
        while "Serving" not in warned:
            line = process.stderr.readline()
            assert line, warned
            warned += line
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=60)

    assert process.returncode == 0
    assert "plantstore token create NAME" in warned
    assert "Traceback" not in errors
    assert token_names(database) == []
    with Service(tmp_path) as service:
        pass
    shown = re.findall(r"plst_\w+", service.said)
    assert shown
    assert all(map(is_well_formed, shown))
    assert token_names(database) == ["first"]
