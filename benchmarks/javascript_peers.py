"""The compared servers that are written in JavaScript."""

import json
import shutil
from pathlib import Path

from peer import APPS, DATABASE, Peer, any_token, said

PACKAGES = APPS / "node_modules"
NODE = shutil.which("node") or "node"
# Bun has a package for each platform; npm installs the ones that match this machine.
BUN_PROGRAM = next(iter(sorted(PACKAGES.glob("@oven/bun-*/bin/bun"))), PACKAGES / "bun")


def _json_server_version() -> str:
    manifest = json.loads((PACKAGES / "json-server" / "package.json").read_text(encoding="utf-8"))
    node = said(NODE, "--version").removeprefix("v")
    return f"json-server {manifest['version']}, Node.js {node}"


def _bun(folder: Path, port: int, token: str) -> list[str]:
    app = APPS / "bun_sqlite.js"
    return [str(BUN_PROGRAM), str(app), str(folder / DATABASE), str(port), token]


def _prepare_json_server(folder: Path) -> str:
    (folder / "plants.json").write_text('{"plants": []}', encoding="utf-8")
    return "none"


def _json_server(folder: Path, port: int, _token: str) -> list[str]:
    command = [NODE, str(PACKAGES / "json-server" / "lib" / "cli" / "bin.js"), "--quiet"]
    command += ["--host", "127.0.0.1", "--port", str(port)]
    return [*command, str(folder / "plants.json")]


BUN = Peer(
    "Bun + bun:sqlite",
    BUN_PROGRAM,
    any_token,
    _bun,
    lambda: f"Bun {said(str(BUN_PROGRAM), '--version')}",
    "one prepared INSERT per request, JSON checked by hand; WAL, `synchronous = FULL`",
)

JSON_SERVER = Peer(
    "json-server",
    PACKAGES / "json-server",
    _prepare_json_server,
    _json_server,
    _json_server_version,
    "default; it rewrites its whole JSON file for each create, which takes longer as the"
    " file grows, and it does not check tokens",
    file="plants.json",
)
