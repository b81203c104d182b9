"""The log as text on a terminal and as JSON lines elsewhere."""

import json
import re
import sys
from pathlib import Path

from support.command import on_terminal, run_program

# The line of a library, the line of the service, and an unexpected error with a secret in a local
# variable of its stack frames. The first two contain the process id as text.
PROGRAM = """
import logging, os
from plantstore.observe import DatabaseCreated, RequestFailed
from plantstore.telemetry.log import configure_logs, log_events

def handle(token):
    raise ZeroDivisionError("nobody foresaw this")

configure_logs()
logging.getLogger("library").warning(f"process {os.getpid()}")
observe = log_events()
observe(DatabaseCreated(f"process {os.getpid()}"))
try:
    handle("plst_" + "secret")
except ZeroDivisionError as error:
    observe(RequestFailed(error, "POST", "/plants", "0af7651916cd43dd"))
"""


def assert_traceback_without_local_variables(log: str) -> None:
    assert "request failed" in log
    assert "nobody foresaw this" in log
    assert "handle" in log
    assert "plst_secret" not in log


def test_each_line_of_the_log_is_json_with_the_process_id(tmp_path: Path) -> None:
    log = run_program(sys.executable, "-c", PROGRAM, cwd=tmp_path).stderr

    of_library, of_service, of_error = log.splitlines()
    for line in (of_library, of_service):
        assert f"process {json.loads(line)['pid']}" in line
    assert json.loads(of_error)["pid"]
    assert_traceback_without_local_variables(of_error)


def test_each_line_of_the_log_on_a_terminal_has_the_process_id(tmp_path: Path) -> None:
    log = on_terminal(tmp_path, sys.executable, "-c", PROGRAM, NO_COLOR="1")

    of_library, of_service, *of_error = log.splitlines()
    for line in (of_library, of_service):
        assert re.search(r"process (\d+)\b.* pid=\1$", line)
    assert_traceback_without_local_variables("\n".join(of_error))
