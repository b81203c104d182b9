"""The compared servers that are written in Go."""

import shutil
from pathlib import Path

from harness import HERE
from peer import DATABASE, Peer, any_token, said

# `make bench-peers` builds it.
PROGRAM = HERE.parent / ".venv-peers" / "go_sqlite"


def _peer(name: str, mode: str, setting: str) -> Peer:
    def command(folder: Path, port: int, token: str) -> list[str]:
        return [str(PROGRAM), str(folder / DATABASE), str(port), token, mode]

    return Peer(name, PROGRAM, any_token, command, _version, f"{setting}; WAL, `synchronous=FULL`")


def _version() -> str:
    return said(shutil.which("go") or "go", "version").removeprefix("go version ")


GO = _peer("Go + net/http", "each", "as people write it: one prepared INSERT for each request")
GO_GROUPS = _peer(
    "Go, group commit by hand",
    "group",
    "as an expert would write it: one goroutine commits all plants that wait",
)
