"""The metrics of the serving processes, from the kernel, with the usual names of Prometheus."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from types import MappingProxyType
from typing import Final

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.process_collector import ProcessCollector

# For each metric: the function that combines the values of several processes, and the help text.
_GAUGES: Final[Mapping[str, tuple[Callable[[Iterable[float]], float], str]]] = MappingProxyType(
    {
        "process_virtual_memory_bytes": (sum, "Virtual memory size in bytes."),
        "process_resident_memory_bytes": (sum, "Resident memory size in bytes."),
        "process_open_fds": (sum, "Number of open file descriptors."),
        "process_max_fds": (sum, "Maximum number of open file descriptors."),
        "process_start_time_seconds": (
            min,
            "Start time of the oldest process since unix epoch in seconds.",
        ),
    }
)


def describe_processes(pids: Iterable[int], cpu_seconds: float) -> Iterator[Metric]:
    """Yield the `process_*` metrics of these processes together.

    Args:
        pids: processes of this user. A process that ends in the meantime is left out.
        cpu_seconds: CPU time of these processes, and of workers that have ended.

    """
    values: dict[str, list[float]] = {name: [] for name in _GAUGES}
    for pid in pids:
        for metric in ProcessCollector(pid=partial(int, pid), registry=None).collect():
            if metric.name in values:
                values[metric.name].append(metric.samples[0].value)
    for name, (combine, text) in _GAUGES.items():
        if values[name]:
            yield GaugeMetricFamily(name, text, value=combine(values[name]))
    yield CounterMetricFamily(
        "process_cpu_seconds", "Total user and system CPU time spent in seconds.", value=cpu_seconds
    )
