"""Environment variables that are named like a setting, but are none."""

import os

import pytest

from plantstore.settings import unknown_variables


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("PLANTSTORE_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "warning"),
    [
        (
            "PLANTSTORE_WORKRES",
            "PLANTSTORE_WORKRES is not a setting; did you mean PLANTSTORE_WORKERS?",
        ),
        ("PLANTSTORE_PAGES", "PLANTSTORE_PAGES is not a setting; did you mean PLANTSTORE_PAGE?"),
        (
            "PLANTSTORE_DATABASE_URL",
            "PLANTSTORE_DATABASE_URL is not a setting; did you mean PLANTSTORE_DATABASE?",
        ),
        ("PLANTSTORE_COLOUR", "PLANTSTORE_COLOUR is not a setting"),
        ("PLANTSTORE_", "PLANTSTORE_ is not a setting"),
    ],
)
def test_an_unknown_variable_is_named_with_the_most_similar_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, warning: str
) -> None:
    monkeypatch.setenv(name, "2")

    assert list(unknown_variables()) == [warning]


@pytest.mark.parametrize(
    "name", ["PLANTSTORE_WORKERS", "PLANTSTORE_STANDBYS_MIN", "PLANTSTORE_TEST_POSTGRES", "WORKRES"]
)
def test_settings_and_variables_of_others_are_not_reported(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    monkeypatch.setenv(name, "2")

    assert not list(unknown_variables())
