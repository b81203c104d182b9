"""A reader of a page of the documents, who runs the commands that it shows."""

import contextlib
import os
import re
import select
import shlex
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, Self

from support.service import Service

ROOT = Path(__file__).parents[2]

# Programs and shell builtins that are run exactly as shown.
RUN_AS_SHOWN = re.compile(r"(curl|plantstore|printf|echo|cat|export) |[A-Z]+=")

# Patterns of output that differs in each run, and the text that replaces it for the comparison.
DIFFERENT = {
    r"127\.0\.0\.1:\d+": "127.0.0.1:8000",
    r"(?m)^date: .+$": "date: Sat, 21 Nov 2026 06:11:13 GMT",
    r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ": "2026-11-21T06:11:13Z",
    r'"number":\d{16}': '"number":1795522387000000',
    r"undo [0-9a-f-]{36}": "undo 1f0b6c5e-93d6-4b0e-8a55-0c7f9b6f2d11",
    r"(?m)[ \r]+$": "",
}

# The maximum duration of all commands of a page together.
SECONDS_MAX = 120

MARK = "--- the command is done, with the status"


class Command(NamedTuple):
    """A command of a page, and the output that the page shows below it."""

    text: str
    shown: str


def commands(page: str) -> list[Command]:
    text = (ROOT / page).read_text(encoding="utf-8")
    found = []
    for shown in re.findall(r"^```console\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        begun = re.split(r"^\$ ", shown, flags=re.MULTILINE)
        assert begun[0] == "", f"{page}: a block begins with no command"
        for each in begun[1:]:
            command = re.match(r"(?:.*\\\n)*.*\n", each)
            assert command is not None
            found.append(Command(command[0].strip(), each[command.end() :]))
    return found


class Reader:
    """A reader of a page: a shell in a folder, and the service that the page starts."""

    def __init__(self, folder: Path, new_database: Callable[[], str]) -> None:
        self.folder = folder
        self.new_database = new_database
        self.service: Service | None = None
        self.token = ""
        self.status = 0

    def __enter__(self) -> Self:
        (self.folder / "examples").symlink_to(ROOT / "examples")
        env = {name: value for name, value in os.environ.items() if "PLANTSTORE" not in name}
        env["PATH"] = f"{Path(sys.executable).parent}:{env['PATH']}"
        self.shell = subprocess.Popen(
            ["bash", "--norc"],
            cwd=self.folder,
            env=env | {"LC_ALL": "C.UTF-8"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            start_new_session=True,
        )
        # A command that does not end is killed with all processes that it started.
        self.watch = threading.Timer(SECONDS_MAX, os.killpg, (self.shell.pid, signal.SIGKILL))
        self.watch.start()
        self.run('curl() { command curl --silent --show-error "$@"; }')
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()
        self.watch.cancel()
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.shell.pid, signal.SIGKILL)
        self.shell.communicate()

    def follow(self, text: str) -> str:
        """Run a command of a page; return its output."""
        if serve := re.fullmatch(r"make run|plantstore serve(.*)", text):
            return self.start(*shlex.split(re.sub(r"--port[ =]\d+", "", serve[1] or "")))
        if re.match("make |pip install ", text):
            # It would install from the network or measure something. test_docs.py checks that each
            # target exists, and test_packages.py installs the wheel.
            return ""
        assert RUN_AS_SHOWN.match(text), f"nothing here says how to run this: {text}"
        if re.match(r"export PLANTSTORE_DATABASE=['\"]?postgresql:", text):
            # The servers named on the page do not exist; a test server replaces them.
            return self.run(f"export PLANTSTORE_DATABASE={shlex.quote(self.new_database())}")
        if self.service is not None:
            text = re.sub(r"127\.0\.0\.1:\d+", f"127.0.0.1:{self.service.port}", text)
        return self.run(text.replace("plst_…", self.token))

    def run(self, text: str) -> str:
        """Run a command in the shell, which keeps its state between commands."""
        assert self.shell.stdin is not None
        assert self.shell.stdout is not None
        # Set `$?` to the status of the previous command, as the reader sees it.
        before, command = f"(exit {self.status})", f"eval {shlex.quote(text)} </dev/null"
        self.shell.stdin.write(f"{before}; {command}; printf '\\n{MARK} %d\\n' $?\n")
        self.shell.stdin.flush()
        printed = ""
        while not (done := re.search(rf"\n{MARK} (\d+)\n$", printed)):
            line = self.shell.stdout.readline()
            assert line, f"the command ended the shell or did not end: {text}"
            printed += line
        self.status = int(done[1])
        return printed[: done.start()]

    def start(self, *options: str) -> str:
        """Start the service on a free port; return its output."""
        self.stop()
        lines = self.run("env").splitlines()
        settings = dict(line.split("=", 1) for line in lines if line.startswith("PLANTSTORE_"))
        self.service = Service(self.folder, *options)
        self.service.env |= settings
        self.service.__enter__()
        # The service prints the first token to the pipe before it logs that it serves.
        assert self.service.process.stdout is not None
        said = ""
        if select.select([self.service.process.stdout], [], [], 0)[0]:
            said = os.read(self.service.process.stdout.fileno(), 65_536).decode()
        self.token = "".join(re.findall(r"plst_\w+", said)[:1]) or self.token
        return said + "".join(self.service.log)

    def stop(self) -> None:
        """Stop the service, as Ctrl-C does."""
        if self.service is not None:
            self.service.stop(signal.SIGINT)
            self.service = None


def is_as_shown(printed: str, shown: str) -> bool:
    """Return whether a command printed what the page shows, where `…` matches anything."""
    for pattern, replacement in DIFFERENT.items():
        printed, shown = (re.sub(pattern, replacement, text) for text in (printed, shown))
    lines = [
        r"(.*\n)*" if line == "…" else re.escape(line).replace("…", ".*") + r"\n"
        for line in shown.splitlines()
    ]
    return re.fullmatch("".join(lines), printed.rstrip("\n") + "\n") is not None
