"""CSV files, and what each reader of CSV must make of them: the command line and the page."""

import json
from pathlib import Path
from typing import NamedTuple

from plantstore.plants import NewPlant


class Case(NamedTuple):
    """A file, and its plants, its refused rows with their lines, its warning, or its error."""

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
