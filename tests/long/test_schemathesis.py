"""Schemathesis checks the service against its OpenAPI document, with many examples."""

from pathlib import Path

from support.conformance import assert_conformance


def test_schemathesis_finds_no_violation_with_many_examples(tmp_path: Path) -> None:
    assert_conformance(tmp_path, 300)
