"""Fuzzing of the parsers of untrusted input: each input is parsed or refused with a known error."""

import sys
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from support.bodies import VALUES
from support.command import run_program

FUZZ = Path(__file__).with_name("fuzz.py")


class Start(NamedTuple):
    """The initial inputs of a fuzzing target, the words to insert, and the number of runs."""

    corpus: list[bytes]
    words: list[str]
    runs: int


STARTS = {
    "plant": Start(
        [
            *(b'{"id":%b,"name":"a"}' % text.encode() for text in VALUES if len(text) < 1000),
            *(b'{"id":1,"name":%b}' % text.encode() for text in VALUES if len(text) < 1000),
            b'{"id":1,"name":"a","x":' + b"[" * 1500 + b"]" * 500 + b"}",
        ],
        ["id", "name", "tag", "\\u0000", "\\ud800", "\\ud83c\\udf31", "1e999999999", ".0e-1"],
        3_000_000,
    ),
    "query": Start(
        [
            *(b"limit=10&after=-5&tag=Abies", b"tag=%C3%97&limit=1e3", b"after=1.0", b"limit=0"),
            *(b"tag=%FF", b"tag=a&tag=b", b"x=1", b"-9223372036854775808", b"tag=%26+%2B%25;"),
        ],
        ["limit=", "after=", "tag=", "&", "%26", "%C3%97", "%ED%A0%80", "1e999999999"],
        2_000_000,
    ),
}


@pytest.mark.parametrize("target", STARTS)
def test_any_input_is_parsed_or_refused_with_a_known_error(
    tmp_path: Path, soak: Any, target: str
) -> None:
    start = STARTS[target]
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for number, seed in enumerate(start.corpus):
        (corpus / f"{number}").write_bytes(seed)
    words = "".join('"{}"\n'.format(word.replace("\\", "\\\\")) for word in start.words)
    (tmp_path / "words").write_text(words, encoding="ascii")

    done = run_program(
        *(sys.executable, FUZZ, target, f"-runs={start.runs}", "-seed=1"),
        *("-max_len=2048", "-dict=words", "corpus"),
        cwd=tmp_path,
        timeout=900,
        errors="replace",
    )

    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Done {start.runs} runs" in done.stderr
    soak.add(f"fuzzing: {target}", faults=start.runs, acknowledged=None, lost=None)
