"""A limit on requests that take long: how many run at a time, and how many with each token."""

from collections import Counter

from plantstore.errors import ErrorCode, RequestError


class ConcurrencyLimit:
    """Limits how many of these requests run at a time.

    A token has at most three quarters of the places, so one client cannot occupy all of them.

    Args:
        places_max: number of places.
        what: the plural of the requests, for error messages.

    """

    def __init__(self, places_max: int, what: str) -> None:
        self._places_max = places_max
        self._per_token_max = places_max * 3 // 4
        self._what = what
        self._taken: Counter[str] = Counter()

    @property
    def taken(self) -> int:
        """The number of places that are taken."""
        return self._taken.total()

    def take(self, token: str) -> None:
        """Take a place for a request with the token of this name.

        Raises:
            RequestError: OVERLOADED.

        """
        if self.taken >= self._places_max:
            raise RequestError(ErrorCode.OVERLOADED, f"Too many {self._what} run; nothing was done")
        if self._taken[token] >= self._per_token_max:
            message = f"Too many {self._what} with this token run; nothing was done"
            raise RequestError(ErrorCode.OVERLOADED, message)
        self._taken[token] += 1

    def leave(self, token: str) -> None:
        """Free a place that was taken."""
        self._taken[token] -= 1
        if not self._taken[token]:
            del self._taken[token]
