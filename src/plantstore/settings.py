"""Every setting: its type, default, bounds and help text.

The options of the command line are generated from here, and a test compares docs/settings.md. For
example, `port` is the option `--port` and the variable `PLANTSTORE_PORT`. An option takes
precedence over its variable, and the variable over the default.
"""

import contextlib
import difflib
import math
import os
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, Final, TypeVar

from plantstore.errors import UsageError, quoted

DefaultT = TypeVar("DefaultT")

_CGROUPS: Final = Path("/sys/fs/cgroup")
_OWN_CGROUP: Final = Path("/proc/self/cgroup")


def usable_cores(
    cgroups: Path = _CGROUPS, own: Path = _OWN_CGROUP, affinity: Collection[int] | None = None
) -> int:
    """Return the cores in the affinity mask, or fewer if a cgroup limits the CPU time.

    Containers and `CPUQuota=` of systemd set such limits: `cpu.max` of cgroup v2 has a quota and a
    period (https://docs.kernel.org/admin-guide/cgroup-v2.html#cpu-interface-files).

    Args:
        cgroups: the folder of all cgroups.
        own: the file that names the cgroup of this process.
        affinity: the cores on which this process may run; None to ask the kernel.

    """
    cores = os.sched_getaffinity(0) if affinity is None else affinity
    return max(1, min([len(cores), *_quotas(cgroups, own)]))


def _quotas(cgroups: Path, own: Path) -> list[int]:
    """Return the limits of the own cgroup and of its ancestors, rounded up."""
    quotas = []
    with contextlib.suppress(OSError, ValueError):
        # The last line is that of cgroup v2. A sandbox may have none.
        group = cgroups / own.read_text(encoding="utf-8").rpartition("::")[2].strip().lstrip("/")
        for folder in (group, *group.parents):
            if folder.is_relative_to(cgroups) and (folder / "cpu.max").exists():
                quota, period = (folder / "cpu.max").read_text(encoding="ascii").split()
                quotas += [] if quota == "max" else [math.ceil(int(quota) / int(period))]
    return quotas


WORKERS_MAX: Final = 64

_PREFIX: Final = "PLANTSTORE_"

# The rest of the names of variables that only the tests and the examples of this project read.
_OF_OTHERS: Final = re.compile("TEST_.*|TOKEN")


def parse_workers(text: str | int) -> int:
    """Return the number of workers that an option or a variable stands for.

    Raises:
        UsageError: it is no number in the range, and not `auto`.

    """
    if text == "auto":
        return min(usable_cores(), WORKERS_MAX)
    if str(text).isascii() and str(text).isdecimal() and 1 <= int(text) <= WORKERS_MAX:
        return int(text)
    raise UsageError(
        f"--workers must be auto or a number from 1 to {WORKERS_MAX}, got {quoted(str(text))}"
    )


@dataclass(frozen=True, slots=True)
class Option:
    """How a setting is given on the command line.

    Attributes:
        help: the text that describes it.
        metavar: the name of its value in the help.
        min: the smallest number; None for no limit.
        max: the largest number; None for no limit.
        parse: returns the value for a text, or raises UsageError; None for that of the type.

    """

    help: str
    metavar: str | None = None
    min: int | None = None
    max: int | None = None
    parse: Callable[[str], Any] | None = None

    def default(self, value: DefaultT) -> DefaultT:
        """Return the field of a dataclass that has this option, and this value by default."""
        return field(default=value, metadata={"option": self})


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of `plantstore serve`."""

    host: str = Option(
        metavar="ADDRESS",
        help="Address to listen on; of a name, the first address. The default accepts connections "
        "of this machine only.",
    ).default("127.0.0.1")

    port: int = Option(
        min=0,
        max=65535,
        metavar="NUMBER",
        help="Port to listen on; 0 chooses a free port.",
    ).default(8000)

    database: str = Option(
        metavar="URL",
        help="The database: sqlite:///FILE with a relative path, sqlite:////FILE with an "
        "absolute path, or postgresql://USER@HOST:PORT/NAME.",
    ).default("sqlite:///plants.db")

    migrate: bool = Option(
        help="Create the store or update its schema if necessary. With --no-migrate, run "
        "plantstore migrate before.",
    ).default(value=True)

    standbys_min: int = Option(
        min=0,
        metavar="NUMBER",
        help="Number of synchronous standbys of PostgreSQL that must store each change, besides "
        "the primary. With fewer standbys, nothing is changed.",
    ).default(0)

    workers: int = Option(
        parse=parse_workers,
        metavar="NUMBER|auto",
        help="Number of processes that serve, from 1 to 64; auto is one for each core. Each "
        "uses one core. On SQLite, they write one after the other.",
    ).default(1)

    request_seconds: int = Option(
        min=1,
        max=3600,
        metavar="SECONDS",
        help="How long a request may take to arrive, and a new connection to begin one.",
    ).default(10)

    idle_seconds: int = Option(
        min=1,
        max=3600,
        metavar="SECONDS",
        help="How long a connection may be idle between two requests. Behind a proxy, it must "
        "be longer than the idle timeout of the proxy.",
    ).default(75)

    rate_per_token: str | None = Option(
        metavar="RATE",
        help="How often a token may be used, in each worker, such as 100/second or "
        "100/second;5000/hour. Further requests get 429. Default: no limit.",
    ).default(None)

    public_read: bool = Option(
        help="Reading plants needs no token. Requests without a token count as those of one token.",
    ).default(value=False)

    stop_seconds: int = Option(
        min=1,
        metavar="SECONDS",
        help="How long a shutdown waits for the requests in progress. Then it cuts them off.",
    ).default(10)

    drain_seconds: int = Option(
        min=0,
        max=3600,
        metavar="SECONDS",
        help="How long a shutdown still accepts requests while /readyz says 503, so that a "
        "load balancer stops sending requests first.",
    ).default(0)

    tls_certificate: Path | None = Option(  # noqa: RUF009 (it returns a field)
        metavar="FILE",
        help="Serve HTTPS with this certificate and its chain, in PEM.",
    ).default(None)

    tls_key: Path | None = Option(  # noqa: RUF009 (it returns a field)
        metavar="FILE",
        help="The private key of the certificate, in PEM, if it is in a file of its own.",
    ).default(None)

    trusted_proxy: tuple[str, ...] = Option(
        metavar="NETWORK",
        help="Address or network of a proxy in front; it may be given several times. The "
        "fields X-Forwarded-For and X-Forwarded-Proto of its requests are used.",
    ).default(())

    allow_origin: tuple[str, ...] = Option(
        metavar="ORIGIN",
        help="Origin of pages that may call the service from a browser, such as "
        "https://app.example; it may be given several times. * allows all.",
    ).default(())

    changes_keep: int = Option(
        min=0,
        max=3650,
        metavar="DAYS",
        help="How long GET /changes has a change, in days; 0 keeps none. All instances on one "
        "database use the value of the one that was started last.",
    ).default(7)

    access_log: bool = Option(help="Log a line for each response.").default(value=False)


def variable_of(name: str) -> str:
    """Return the environment variable of a setting."""
    return _PREFIX + name.upper()


def unknown_variables() -> Iterator[str]:
    """Yield a warning for each environment variable that is named like a setting, but is none."""
    known = {field.name.upper() for field in fields(Settings)}
    for variable in sorted(os.environ):
        name = variable.removeprefix(_PREFIX)
        if name not in {variable, *known} and not _OF_OTHERS.fullmatch(name):
            near = difflib.get_close_matches(name, known, 1)
            hint = f"; did you mean {_PREFIX}{near[0]}?" if near else ""
            yield f"{variable} is not a setting{hint}"
