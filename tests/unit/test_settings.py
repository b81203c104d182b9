"""Settings: variables that are named like one, but are none; and the number of workers."""

import os
from pathlib import Path

import pytest

from plantstore.errors import UsageError
from plantstore.settings import WORKERS_MAX, parse_workers, unknown_variables, usable_cores


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in os.environ:
        if name.startswith("PLANTSTORE_"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "similar"),
    [
        ("PLANTSTORE_WORKRES", "; did you mean PLANTSTORE_WORKERS?"),
        ("PLANTSTORE_PORTS", "; did you mean PLANTSTORE_PORT?"),
        ("PLANTSTORE_DATABASE_URL", "; did you mean PLANTSTORE_DATABASE?"),
        ("PLANTSTORE_COLOUR", ""),
        ("PLANTSTORE_", ""),
    ],
)
def test_an_unknown_variable_is_named_with_the_most_similar_setting(
    monkeypatch: pytest.MonkeyPatch, name: str, similar: str
) -> None:
    monkeypatch.setenv(name, "2")

    assert list(unknown_variables()) == [f"{name} is not a setting{similar}"]


def test_settings_and_variables_of_others_are_not_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("WORKERS", "STANDBYS_MIN", "TEST_POSTGRES", "TOKEN"):
        monkeypatch.setenv(f"PLANTSTORE_{name}", "2")
    monkeypatch.setenv("WORKRES", "2")

    assert not list(unknown_variables())


def test_the_cores_are_those_of_the_affinity_mask_unless_a_cgroup_limits_them(
    tmp_path: Path,
) -> None:
    assert usable_cores(Path("/nowhere"), Path("/nowhere"), range(64)) == 64
    assert usable_cores(Path("/nowhere")) == len(os.sched_getaffinity(0))

    service = tmp_path / "cgroup" / "slice" / "service"
    service.mkdir(parents=True)
    (service.parent / "cpu.max").write_text("150000 100000\n", encoding="ascii")
    (tmp_path / "own").write_text("1:cpu:/\n0::/slice/service\n", encoding="utf-8")
    for limit, cores in (("max 100000", 2), ("50000 100000", 1), ("garbage", 64)):
        (service / "cpu.max").write_text(f"{limit}\n", encoding="ascii")
        assert usable_cores(tmp_path / "cgroup", tmp_path / "own", range(64)) == cores
    (tmp_path / "own").write_text("", encoding="utf-8")  # as in a sandbox
    assert usable_cores(tmp_path / "cgroup", tmp_path / "own", range(64)) == 64


def test_auto_is_a_worker_for_each_core() -> None:
    assert parse_workers("auto") == min(usable_cores(), WORKERS_MAX)
    assert parse_workers("64") == 64


@pytest.mark.parametrize("text", ["0", "65", "-1", "1.5", "", "Auto", "\u0663"])
def test_another_number_of_workers_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="must be auto or a number from 1 to 64"):
        parse_workers(text)
