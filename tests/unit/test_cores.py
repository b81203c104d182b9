"""The number of cores that the process may use, and the number of workers."""

import os
from pathlib import Path

import pytest

from plantstore.settings import WORKERS_MAX, parse_workers, usable_cores

UNLIMITED = Path("/nowhere")


@pytest.fixture
def cgroups(tmp_path: Path) -> Path:
    """Return the folder of a cgroup without a limit, in one that has 1.5 cores."""
    service = tmp_path / "cgroup" / "slice" / "service"
    service.mkdir(parents=True)
    (service / "cpu.max").write_text("max 100000\n", encoding="ascii")
    (service.parent / "cpu.max").write_text("150000 100000\n", encoding="ascii")
    (tmp_path / "own").write_text("1:cpu:/\n0::/slice/service\n", encoding="utf-8")
    return tmp_path / "cgroup"


def test_the_cores_are_those_of_the_affinity_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1, 4, 6}, raising=False)

    assert usable_cores(UNLIMITED, UNLIMITED) == 3


def test_a_cgroup_limits_the_cores(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, cgroups: Path
) -> None:
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(64)), raising=False)

    assert usable_cores(cgroups, tmp_path / "own") == 2
    (cgroups / "slice" / "service" / "cpu.max").write_text("50000 100000\n", encoding="ascii")
    assert usable_cores(cgroups, tmp_path / "own") == 1
    (cgroups / "slice" / "service" / "cpu.max").write_text("garbage\n", encoding="ascii")
    assert usable_cores(cgroups, tmp_path / "own") == 64


def test_auto_is_a_worker_for_each_core() -> None:
    assert parse_workers("auto") == min(usable_cores(), WORKERS_MAX)
    assert parse_workers("64") == 64


@pytest.mark.parametrize("text", ["0", "65", "-1", "1.5", "", "Auto", "\u0663"])
def test_another_number_of_workers_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="must be auto or a number from 1 to 64"):
        parse_workers(text)
