"""Bearer tokens (RFC 6750): who may do what."""

import asyncio
import math
from collections.abc import Callable
from typing import Final

import msgspec

from plantstore.api.limits import RatePerToken
from plantstore.api.parameters import json_response, read_query
from plantstore.errors import ErrorCode, RequestError, StoreUnavailableError
from plantstore.messages import Request, Response
from plantstore.observe import Observer, ReadFailed
from plantstore.store import TokenStore
from plantstore.threads import THREADS, Threads
from plantstore.tokens import TokenRecord, digest, is_well_formed, render_time

# The scope of an operation that needs a token, whatever its scopes are.
ANY_SCOPE: Final = ""

# How long a token is cached. A revocation takes effect within this time. The documentation
# promises only twice this time.
CACHE_SECONDS: Final = 1.0

# The pause of a thread after a token that is unknown or revoked. Without it, clients with such
# tokens keep the event loop so busy that others wait.
PAUSE_SECONDS: Final = 0.001

# The number of cached tokens. When it is reached, the cache is emptied.
CACHED_TOKENS_MAX: Final = 10_000

# While so many tokens wait for a lookup, others are refused, unless they were valid before. The
# number of connections is no limit: a client may leave before its token was looked up.
WAITING_LOOKUPS_MAX: Final = 1_000

_NOT_CACHED: Final = (0.0, None)


class _Lookup:
    """A lookup of a token.

    Attributes:
        asked_at: the time at which the store was asked, by the monotonic clock; infinity before.
        found: the token in the store, or None.

    """

    asked_at: float = math.inf
    found: asyncio.Future[TokenRecord | None]


class Authenticator:
    """Authorizes requests: their token must be valid and have the scope.

    A token is cached for CACHE_SECONDS after the store was asked for it. A request with a cached
    token costs only a dictionary lookup. When the time is over, one request looks the token up
    again. Others with the same token wait for the result, unless the store was asked for it
    CACHE_SECONDS before them: the token may have been revoked since.

    Args:
        store: has the tokens; another thread calls it.
        clock: returns seconds since 1970; tokens expire by it.
        monotonic: a clock in seconds that never goes back.
        rate_limit: counts the uses of each token, by its name.
        observe: gets the events.
        public_read: whether `plants:read` needs no token.
        cached_max: number of tokens in the cache.
        threads: makes the threads.

    """

    def __init__(
        self,
        store: TokenStore,
        clock: Callable[[], float],
        monotonic: Callable[[], float],
        rate_limit: RatePerToken,
        observe: Observer,
        *,
        public_read: bool = False,
        cached_max: int = CACHED_TOKENS_MAX,
        threads: Threads = THREADS,
    ) -> None:
        self._store = store
        self._clock = clock
        self._monotonic = monotonic
        self.rate_limit = rate_limit
        self._observe = observe
        self.public_read = public_read
        self._cached_max = cached_max
        self._cached: dict[str, tuple[float, TokenRecord]] = {}
        self._lookups: dict[str, _Lookup] = {}
        self._threads = threads
        # Nobody whose token is known waits for the lookups of tokens that somebody invents.
        self._threads_of_known = threads.pool(1, "known-tokens")
        self._threads_of_others = threads.pool(1, "other-tokens")

    async def authorize(self, request: Request, scope: str, *, uses: int = 1) -> None:
        """Check that the token of a request is valid and has the scope, unless it is ANY_SCOPE.

        Of several scopes, separated by spaces, one is enough. No body is read.

        Args:
            request: has the token.
            scope: that the token needs.
            uses: the uses of the token that are counted.

        Raises:
            RequestError: TOKEN_MISSING, TOKEN_INVALID, SCOPE_MISSING, OVERLOADED or RATE_EXCEEDED.
            StoreUnavailableError: the token cannot be looked up.

        """
        is_public = self.public_read and scope == "plants:read"
        try:
            scopes = (await self.authenticate(request)).scopes
        except RequestError as error:
            if is_public and error.code is ErrorCode.TOKEN_INVALID:
                error.headers = _challenge("invalid_token", _PUBLIC)
            if not is_public or error.code is not ErrorCode.TOKEN_MISSING:
                raise
        else:
            has_scope = not scope or scope in scopes or not scopes.isdisjoint(scope.split())
            if not has_scope and not is_public:
                raise RequestError(
                    ErrorCode.SCOPE_MISSING,
                    f"The token lacks the scope {scope.replace(' ', ' or ')}",
                    _challenge("insufficient_scope", f', scope="{scope}"'),
                )
        if uses and self.rate_limit.burst_max is not None:
            self.rate_limit.spend(request.token, uses)

    async def authenticate(self, request: Request) -> TokenRecord:
        """Return the token of a request if it is valid, whatever its scopes are.

        The request gets the name of the token. No use of the token is counted. No body is read.

        Raises:
            RequestError: TOKEN_MISSING or TOKEN_INVALID; OVERLOADED if too many tokens wait for a
                lookup.
            StoreUnavailableError: the token cannot be looked up.

        """
        token = _parse_bearer(request.fields.get("authorization", ""))
        until, record = self._cached.get(token, _NOT_CACHED)
        if record is None or until < self._monotonic():
            record = await self._look_up(token)
        if record.expires_at is not None and record.expires_at <= self._clock():
            raise _invalid("The token is expired")
        request.token = record.name
        return record

    async def _look_up(self, token: str) -> TokenRecord:
        if not is_well_formed(token):
            raise _invalid("The token is malformed: copy all of it, from plst_")
        lookup = self._lookups.get(token)
        if lookup is None or lookup.asked_at + CACHE_SECONDS < self._monotonic():
            lookup = self._lookups[token] = self._begin_lookup(token)
        # The shield keeps a cancelled caller from cancelling the lookup of the others.
        try:
            record = await asyncio.shield(lookup.found)
        except StoreUnavailableError as error:
            message = f"{error.message}; nothing was done"
            raise StoreUnavailableError(message, error.reason) from error
        if record is None:
            raise _invalid("The token is unknown")
        if record.revoked_at is not None:
            raise _invalid("The token is revoked")
        return record

    def _begin_lookup(self, token: str) -> _Lookup:
        is_known = token in self._cached
        if not is_known and len(self._lookups) >= WAITING_LOOKUPS_MAX:
            message = "Too many tokens wait to be looked up; nothing was done"
            raise RequestError(ErrorCode.OVERLOADED, message)
        lookup = _Lookup()

        def find() -> TokenRecord | None:
            lookup.asked_at = self._monotonic()
            found = self._store.find_token(digest(token))
            if found is None or found.revoked_at is not None:
                self._threads.sleep(PAUSE_SECONDS)
            return found

        threads = self._threads_of_known if is_known else self._threads_of_others
        lookup.found = asyncio.get_running_loop().run_in_executor(threads, find)
        lookup.found.add_done_callback(lambda _found: self._cache(token, lookup))
        return lookup

    def _cache(self, token: str, lookup: _Lookup) -> None:
        is_latest = self._lookups.get(token) is lookup
        if is_latest:
            del self._lookups[token]
        if lookup.found.cancelled():
            return
        error = lookup.found.exception()
        if isinstance(error, StoreUnavailableError):
            self._observe(ReadFailed(error, 1))
        if error is not None or not is_latest:
            return
        record = lookup.found.result()
        if record is None or record.revoked_at is not None:  # such tokens could fill the cache
            self._cached.pop(token, None)
            return
        if len(self._cached) >= self._cached_max:
            self._cached.clear()
        self._cached[token] = (lookup.asked_at + CACHE_SECONDS, record)


def _parse_bearer(authorization: str) -> str:
    """Parse `Bearer TOKEN` (RFC 6750 §2.1). The scheme is case-insensitive (RFC 9110 §11.1).

    Raises:
        RequestError: TOKEN_MISSING, or TOKEN_INVALID if there is a scheme and no token.

    """
    scheme, _, token = authorization.partition(" ")
    if scheme.lower() != "bearer":
        message = "A bearer token is needed" + (", not another scheme" if authorization else "")
        raise RequestError(ErrorCode.TOKEN_MISSING, message, _challenge())
    token = token.strip(" ")
    if not token:
        raise _invalid("The token is empty")
    return token


def _invalid(message: str) -> RequestError:
    return RequestError(ErrorCode.TOKEN_INVALID, message, _challenge("invalid_token"))


# Only a token that is sent can be wrong (RFC 6750 §3).
_PUBLIC: Final = ', error_description="Plants can be read without a token"'


def _challenge(error: str = "", more: str = "") -> dict[str, str]:
    """Return the field of a 401 or 403. Without a token, it has no error (RFC 6750 §3.1)."""
    reason = f', error="{error}"{more}' if error else ""
    return {"WWW-Authenticate": f'Bearer realm="plantstore"{reason}'}


class TokenDescription(msgspec.Struct, frozen=True, omit_defaults=True):
    """The Token record of the interface."""

    name: str
    scopes: list[str]
    expires_at: str | None = None


async def show_token(authenticator: Authenticator, request: Request) -> Response:
    """Tell a client what its own token permits, so that it offers nothing else."""
    read_query(request)
    token = await authenticator.authenticate(request)
    expires_at = None if token.expires_at is None else render_time(token.expires_at)
    described = TokenDescription(token.name, sorted(token.scopes), expires_at)
    return json_response(msgspec.json.encode(described))
