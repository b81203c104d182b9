"""The log as text on a terminal and as JSON lines elsewhere."""

import json
import os
import pty
import re
import subprocess
import sys

import pytest

# An unexpected error, with a secret in a local variable of its stack frames.
PROGRAM = """
from plantstore.observe import RequestFailed
from plantstore.telemetry.log import configure_logs
from plantstore.telemetry.log import log_events

def handle(token):
    raise ZeroDivisionError("nobody foresaw this")

configure_logs()
try:
    handle("plst_" + "secret")
except ZeroDivisionError as error:
    log_events()(RequestFailed(error, "POST", "/plants", "0af7651916cd43dd"))
"""


def log_of(program: str, *, on_a_terminal: bool) -> str:
    if not on_a_terminal:
        done = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=True
        )
        return done.stderr
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", program], stderr=theirs) as process:
        os.close(theirs)
        output = b""
        try:
            while data := os.read(ours, 4096):
                output += data
        except OSError:  # Linux raises it when the other side is closed
            pass
        os.close(ours)
    assert process.returncode == 0
    return output.decode()


@pytest.mark.parametrize("on_a_terminal", [True, False])
def test_the_log_has_the_traceback_of_an_error_without_local_variables(on_a_terminal: bool) -> None:  # noqa: FBT001
    log = log_of(PROGRAM, on_a_terminal=on_a_terminal)

    assert "request failed" in log
    assert "nobody foresaw this" in log
    assert "handle" in log
    assert "plst_secret" not in log


# A line of a library and a line of the service. Both contain the process id as text.
TWO_LINES = """
import logging, os
from plantstore.observe import DatabaseCreated
from plantstore.telemetry.log import configure_logs
from plantstore.telemetry.log import log_events

configure_logs(colors=False)
logging.getLogger("library").warning(f"process {os.getpid()}")
log_events()(DatabaseCreated(f"process {os.getpid()}"))
"""


def test_each_log_line_has_the_process_id() -> None:
    lines = log_of(TWO_LINES, on_a_terminal=False).splitlines()
    on_a_terminal = log_of(TWO_LINES, on_a_terminal=True).splitlines()

    assert len(lines) == len(on_a_terminal) == 2
    for line in lines:
        assert f"process {json.loads(line)['pid']}" in line
    for line in on_a_terminal:
        assert re.search(r"process (\d+)\b.* pid=\1$", line)
