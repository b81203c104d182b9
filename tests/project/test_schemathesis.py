"""Schemathesis checks the service against its OpenAPI document."""

from pathlib import Path

from support.document import assert_conformance


def test_schemathesis_finds_no_violation_of_the_openapi_document(tmp_path: Path) -> None:
    """`make soak` runs it with more examples."""
    assert_conformance(tmp_path, 3)
