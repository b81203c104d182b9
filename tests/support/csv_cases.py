"""CSV files with the results that the command, the service and the page must produce."""

import json
from pathlib import Path
from typing import NamedTuple

from plantstore.plants import NewPlant


class Case(NamedTuple):
    """A file with its expected plants, refused rows and their lines, warning, and error."""

    name: str
    content: bytes
    plants: list[NewPlant]
    refused: list[tuple[int, str]]
    warning: str
    error: str


def _cases() -> list[Case]:
    records = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))
    return [
        Case(
            record["name"],
            record["content"].encode(),
            [NewPlant(*values) for values in record.get("plants", [])],
            [(line, text) for line, text in record.get("refused", [])],
            record.get("warning", ""),
            record.get("error", ""),
        )
        for record in records
    ]


CSV_CASES = _cases()
