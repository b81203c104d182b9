"""Who may do what: bearer tokens by RFC 6750."""

import asyncio
from collections.abc import Callable
from typing import Final

from falcon.asgi import Request

from plantstore.errors import ErrorCode, RequestError, ScopeMissingError
from plantstore.store import Store
from plantstore.tokens import TokenRecord, digest, is_well_formed

# For so long a token is believed without asking the store, so a revocation takes
# effect within it. Twice this is what we promise.
BELIEF_SECONDS: Final = 1.0

# Tokens that are remembered; past it all are forgotten, and the store is asked again.
REMEMBERED_TOKENS_MAX: Final = 10_000

_Lookup = asyncio.Future[TokenRecord | None]


class Gate:
    """Lets requests pass whose token is good and has the scope.

    A token that passed is remembered by its digest, so that the next request
    with it costs a hash and a dictionary look-up. When its second of belief is
    over, one request asks the store and the others await the same answer.

    Args:
        store: knows the tokens; it is asked on another thread.
        clock: the time in seconds since 1970, against which tokens expire.
        monotonic: a clock in seconds that is never set back.

    """

    def __init__(
        self, store: Store, clock: Callable[[], float], monotonic: Callable[[], float]
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self._lookups: dict[bytes, tuple[float, _Lookup]] = {}

    async def authorize(self, req: Request, scope: str) -> None:
        """Return if the request may do what the scope names. The body is not touched.

        Raises:
            RequestError: TOKEN_MISSING, TOKEN_INVALID or SCOPE_MISSING.
            StoreUnavailableError: the token cannot be looked up.

        """
        record = await self._find(_bearer_token(req.get_header("Authorization")))
        if record is None:
            raise _invalid("The token is unknown")
        state = record.state(self._clock())
        if state != "active":
            raise _invalid(f"The token is {state}")
        if scope not in record.scopes:
            raise ScopeMissingError(scope)

    async def _find(self, token: str) -> TokenRecord | None:
        key = digest(token)
        believed_until, lookup = self._lookups.get(key, (0.0, None))
        if lookup is None or believed_until < self._monotonic():
            if not is_well_formed(token):
                raise _invalid("The token is malformed: its checksum does not match")
            if len(self._lookups) >= REMEMBERED_TOKENS_MAX:
                self._lookups.clear()
            lookup = asyncio.ensure_future(asyncio.to_thread(self._store.find_token, key))
            self._lookups[key] = (self._monotonic() + BELIEF_SECONDS, lookup)
        if lookup.done() and not lookup.exception():
            return lookup.result()
        try:
            # A caller that goes away must not cancel the look-up of the others.
            record = await asyncio.shield(lookup)
        except BaseException:
            self._lookups.pop(key, None)
            raise
        if record is None:
            self._lookups.pop(key, None)  # Who makes tokens up is not remembered.
        return record


def _bearer_token(authorization: str | None) -> str:
    """Read `Bearer TOKEN` (RFC 6750 §2.1; the scheme in any case, RFC 9110 §11.1)."""
    if authorization is None:
        raise RequestError(ErrorCode.TOKEN_MISSING, "A bearer token is needed")
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        raise RequestError(ErrorCode.TOKEN_MISSING, "A bearer token is needed, not another scheme")
    token = token.strip(" ")
    if not token:
        raise _invalid("The token is empty")
    return token


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.TOKEN_INVALID, message)
