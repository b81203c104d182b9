"""The log as text on a terminal and as JSON lines elsewhere."""

import json
import os
import pty
import re
import subprocess
import sys

# The line of a library, the line of the service, and an unexpected error with a secret in a local
# variable of its stack frames. The first two contain the process id as text.
PROGRAM = """
import logging, os
from plantstore.observe import DatabaseCreated, RequestFailed
from plantstore.telemetry.log import configure_logs, log_events

def handle(token):
    raise ZeroDivisionError("nobody foresaw this")

configure_logs(colors=False)
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


def test_each_line_of_the_log_is_json_with_the_process_id() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM], capture_output=True, text=True, timeout=60, check=True
    )

    of_library, of_service, of_error = done.stderr.splitlines()
    for line in (of_library, of_service):
        assert f"process {json.loads(line)['pid']}" in line
    assert json.loads(of_error)["pid"]
    assert_traceback_without_local_variables(of_error)


def test_each_line_of_the_log_on_a_terminal_has_the_process_id() -> None:
    ours, theirs = pty.openpty()
    with subprocess.Popen([sys.executable, "-c", PROGRAM], stderr=theirs) as process:
        os.close(theirs)
        output = b""
        try:
            while data := os.read(ours, 4096):
                output += data
        except OSError:  # Linux raises it when the other side is closed
            pass
        os.close(ours)

    assert process.returncode == 0
    of_library, of_service, *of_error = output.decode().splitlines()
    for line in (of_library, of_service):
        assert re.search(r"process (\d+)\b.* pid=\1$", line)
    assert_traceback_without_local_variables("\n".join(of_error))
