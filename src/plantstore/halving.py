"""Splits a failed batch, so that an error of one request does not affect the others."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from plantstore.errors import BatchRefusedError, RequestError

RequestT = TypeVar("RequestT")
ResultT = TypeVar("ResultT")
ErrorT = TypeVar("ErrorT")


def run_by_halves(
    run: Callable[[Sequence[RequestT]], Sequence[ResultT]],
    requests: Sequence[RequestT],
    explain: Callable[[Exception, int], ErrorT],
) -> list[ResultT | ErrorT]:
    """Run requests in one call. If one of them may have caused an error, run each half again.

    Args:
        run: returns a result for each request.
        requests: what to run.
        explain: is called with the error of a call that is not retried, and with the number of
            its requests. It returns the result of each of them, or raises.

    Returns:
        A result for each request.

    """
    results = run_once(run, requests, explain)
    if results or not requests:
        return results
    half = len(requests) // 2
    return [
        *run_by_halves(run, requests[:half], explain),
        *run_by_halves(run, requests[half:], explain),
    ]


def run_once(
    run: Callable[[Sequence[RequestT]], Sequence[ResultT]],
    requests: Sequence[RequestT],
    explain: Callable[[Exception, int], ErrorT],
) -> list[ResultT | ErrorT]:
    """Run requests in one call. The arguments are those of `run_by_halves`.

    Returns:
        A result for each request; none if the call failed, and each half must be run again.

    """
    try:
        return [*run(requests)]
    except Exception as error:  # noqa: BLE001 (`explain` decides)
        if len(requests) > 1 and _may_lie_in_one(error):
            return []
        return [explain(error, len(requests))] * len(requests)


def _may_lie_in_one(error: Exception) -> bool:
    return isinstance(error, BatchRefusedError) or not isinstance(error, RequestError | MemoryError)
