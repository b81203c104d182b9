"""Run uv with the package indexes and certificates that pip is configured to use.

uv reads neither pip's configuration files nor its variables (`PIP_INDEX_URL`). On a machine that
reaches only its own index, the people who set it up have usually configured pip alone.

Usage: python tools/uv.py UV ARGUMENT...
"""

import ast
import os
import subprocess
import sys

# The variables of uv by pip's options, each with the character that separates several values.
VARIABLES = {
    "index-url": ("UV_DEFAULT_INDEX", " "),
    "extra-index-url": ("UV_INDEX", " "),
    "find-links": ("UV_FIND_LINKS", ","),
    "trusted-host": ("UV_INSECURE_HOST", " "),
    "cert": ("SSL_CERT_FILE", " "),
    "client-cert": ("SSL_CLIENT_CERT", " "),
    "proxy": ("ALL_PROXY", " "),
}


def options_of_pip() -> dict[str, str]:
    """Return the options of `pip install` that configuration files and variables set."""
    command = [sys.executable, "-m", "pip", "config", "list"]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    found: dict[str, dict[str, str]] = {"global": {}, "install": {}, ":env:": {}}
    for line in listed.splitlines():
        key, value = line.split("=", 1)
        section, _, name = key.rpartition(".")
        if section in found:
            found[section][name] = ast.literal_eval(value)
    return found["global"] | found["install"] | found[":env:"]


def main(uv: str, *arguments: str) -> None:
    """Replace this process by uv. Variables of uv that are set already stay as they are."""
    options = options_of_pip()
    # pip takes the best version of all indexes. The locked hashes make that safe for uv.
    env = {"UV_INDEX_STRATEGY": "unsafe-best-match"}
    for name, (variable, separator) in VARIABLES.items():
        if name in options:
            env[variable] = separator.join(options[name].split())
    if options.get("no-index", "").lower() in {"1", "on", "true", "y", "yes", "t"}:
        arguments = (*arguments, "--no-index")  # there is no variable for it
    os.execve(uv, [uv, *arguments], env | os.environ)


if __name__ == "__main__":
    main(*sys.argv[1:])
