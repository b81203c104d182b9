"""Many changes in one request: the body of `POST /changes`. It is an import of other rows."""

from collections.abc import Set as AbstractSet
from functools import partial
from typing import Final

from plantstore.api.auth import Authenticator
from plantstore.api.file_imports import FileImports
from plantstore.api.parameters import read_query
from plantstore.changes import Swap
from plantstore.commit.imports import SHOWN_BYTES_MAX, Conflict, Import
from plantstore.errors import ErrorCode, RequestError
from plantstore.formats import FORMATS
from plantstore.formats.change_lines import ChangeLinesParser
from plantstore.server.interface import Request, Response

# A token needs one of them at least, and each line those of its change.
SCOPES: Final = "plants:create plants:update plants:delete"


async def run(authenticator: Authenticator, imports: FileImports, request: Request) -> Response:
    """Make the changes of a body, as `FileImports.receive` does."""
    parameters = read_query(request, "dry-run")
    scopes = (await authenticator.authenticate(request)).scopes
    parser = ChangeLinesParser(partial(_require_scopes, scopes))
    is_shown = "plants:read" in scopes.union(authenticator.public_scopes)
    shown = SHOWN_BYTES_MAX if is_shown else 0
    begin = partial(Import, parser, Conflict.REFUSE, shown_bytes_max=shown)
    form = FORMATS["ndjson"]
    return await imports.receive(request, form, begin, parameters, scopes=[SCOPES], is_list=True)


def _require_scopes(scopes: AbstractSet[str], swap: Swap) -> None:
    """Check that a token with these scopes may make a change.

    Raises:
        RequestError: SCOPE_MISSING.

    """
    for scope in swap.scopes:
        if scope not in scopes:
            raise RequestError(ErrorCode.SCOPE_MISSING, f"The token lacks the scope {scope}")
