"""The number of processor cores that this process may use."""

import contextlib
import math
import os
from pathlib import Path
from typing import Final

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")


def usable_cores(cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP) -> int:
    """Return the cores in the affinity mask, or fewer if a cgroup limits the CPU time.

    Containers and `CPUQuota=` of systemd set such limits: `cpu.max` of cgroup v2 has a quota and a
    period (https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files).

    Args:
        cgroups: the folder of all cgroups.
        own: the file that names the cgroup of this process.

    """
    try:
        cores = len(os.sched_getaffinity(0))
    except AttributeError:  # only Linux has it
        cores = os.cpu_count() or 1
    return max(1, min([cores, *_quotas(cgroups, own)]))


def _quotas(cgroups: Path, own: Path) -> list[int]:
    """Return the limits of the own cgroup and of its ancestors, rounded up."""
    quotas = []
    with contextlib.suppress(OSError, ValueError):
        line = own.read_text(encoding="utf-8").splitlines()[-1]
        group = cgroups / line.rpartition("::")[2].lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(cgroups) and (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
                quotas += [] if quota == "max" else [math.ceil(int(quota) / int(period))]
    return quotas
