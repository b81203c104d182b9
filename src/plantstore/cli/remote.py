"""A service on another machine, for `plantstore import --url` and `plantstore export --url`.

The standard library suffices for one connection with one request at a time, so these commands
need no further package.
"""

import contextlib
import http.client
import io
import re
import ssl
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from http import HTTPStatus
from pathlib import Path
from typing import Final, TypeVar, cast

import msgspec

from plantstore.cli.address import connection_to, parse_url, read_token
from plantstore.cli.retries import InterruptedRequestError, with_retries
from plantstore.errors import OperationError, one_line
from plantstore.formats import FORMATS
from plantstore.formats.rows import Row
from plantstore.imports import LISTED_ERRORS_MAX, Conflict, ImportResult
from plantstore.plants import NewPlant
from plantstore.settings import KIB, MIB

# Rows in one request: the service lists the errors of all of them.
REQUEST_ROWS_MAX: Final = LISTED_ERRORS_MAX

# Characters in one request, and in a page of an export, unless a single row has more.
REQUEST_CHARACTERS_MAX: Final = 512 * 1024

# Larger than any answer to an import, and any row that a service can send.
_ANSWER_BYTES_MAX: Final = 16 * MIB
_ROW_BYTES_MAX: Final = 128 * MIB

# Statuses of requests that may succeed later.
_TRANSIENT: Final = frozenset(
    {
        HTTPStatus.REQUEST_TIMEOUT,
        HTTPStatus.TOO_MANY_REQUESTS,
        HTTPStatus.BAD_GATEWAY,
        HTTPStatus.SERVICE_UNAVAILABLE,
        HTTPStatus.GATEWAY_TIMEOUT,
    }
)

ResultT = TypeVar("ResultT")


class _ErrorAnswer(msgspec.Struct):
    message: str
    lines_stored_through: int = 0


class RemoteService:
    """A client of one service.

    Args:
        url: of the service, with the prefix of its paths if it has one.
        token_file: a file that contains a token.
        ca: a file with the authorities to trust, or None for those of the system.

    Attributes:
        host: of the service.
        port: of the service.

    Raises:
        UsageError: the URL, the token or the authorities cannot be used.
        OperationError: a file cannot be read.

    """

    def __init__(self, url: str, token_file: Path | None, ca: Path | None) -> None:
        self._url = url
        parts = parse_url(url)
        self._prefix = parts.path.rstrip("/")
        self._headers = {"Authorization": f"Bearer {read_token(token_file)}"}
        self._connection = connection_to(parts, ca)
        self.host, self.port = self._connection.host, self._connection.port
        self._rows_max = REQUEST_ROWS_MAX

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def store(
        self, rows: Sequence[Row], conflict: Conflict
    ) -> Iterator[tuple[Sequence[Row], ImportResult]]:
        """Store the plants of rows; yield the rows of each request, and its result.

        Raises:
            OperationError: the service refuses the request, or cannot be reached for
                RETRY_SECONDS_MAX. Rows of which no result was yielded may be stored.

        """
        done = 0
        while done < len(rows):
            sent, result = self.with_retries(
                lambda: self._store_once(rows[done : done + self._rows_max], conflict)  # noqa: B023
            )
            done += len(sent)
            yield sent, result

    def scan_plants(self) -> Generator[list[NewPlant], None, None]:
        """Begin to read all plants, and yield them in lists; call this in `with_retries`.

        Raises:
            OperationError: the service refuses the request, or sends something else.

        """
        response = self._send("GET", "/plants", {"Accept": "application/x-ndjson"})
        return self._plants(response)

    def with_retries(self, run: Callable[[], ResultT]) -> ResultT:
        """Call a function that sends requests; again, with longer pauses, if it is interrupted.

        Raises:
            OperationError: there was no success for RETRY_SECONDS_MAX after an interruption.

        """

        def attempt() -> ResultT:
            try:
                return run()
            except InterruptedRequestError:
                self._connection.close()
                raise

        return with_retries(attempt, self._url)

    def _store_once(
        self, rows: Sequence[Row], conflict: Conflict
    ) -> tuple[Sequence[Row], ImportResult]:
        plants = [row.content for row in rows if isinstance(row.content, NewPlant)]
        query = "" if conflict is Conflict.REFUSE else f"?on-conflict={conflict.value}"
        body = FORMATS["jsonl"].render(plants)
        headers = {"Content-Type": "application/x-ndjson"}
        response = self._send("POST", f"/plants{query}", headers, body)
        with self._interruptible():
            answer = response.read(_ANSWER_BYTES_MAX)
            if response.length:
                raise http.client.IncompleteRead(answer, response.length)
        try:
            result = msgspec.json.decode(answer, type=ImportResult)
        except msgspec.MsgspecError as error:
            raise self._not_a_service() from error
        if not _is_about(result, rows):
            raise self._not_a_service()
        return rows, result

    def _plants(self, response: http.client.HTTPResponse) -> Generator[list[NewPlant], None, None]:
        file = io.BufferedReader(cast("io.RawIOBase", response), 64 * KIB)
        with self._interruptible():
            rows = FORMATS["jsonl"].read(file, _ROW_BYTES_MAX, lambda _: None)
            page: list[NewPlant] = []
            characters = 0
            for row in rows:
                if not isinstance(row.content, NewPlant):
                    raise self._not_a_service()
                page.append(row.content)
                characters += len(row.raw)
                if len(page) >= REQUEST_ROWS_MAX or characters >= REQUEST_CHARACTERS_MAX:
                    yield page
                    page, characters = [], 0
            yield page

    def _send(
        self, method: str, path: str, headers: Mapping[str, str], body: bytes | None = None
    ) -> http.client.HTTPResponse:
        """Send a request; return the response if it is 200."""
        with self._interruptible():
            if self._connection.sock is None:
                self._connection.connect()
            # A service that refuses a request may close the connection before it is sent.
            with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                self._connection.request(
                    method, self._prefix + path, body, {**self._headers, **headers}
                )
            response = self._connection.getresponse()
            if response.status == HTTPStatus.OK:
                return response
            answer = response.read(_ANSWER_BYTES_MAX)
        self._connection.close()
        raise self._error(response, answer)

    def _error(self, response: http.client.HTTPResponse, answer: bytes) -> Exception:
        """Return the error that a response with another status stands for."""
        try:
            error = msgspec.json.decode(answer, type=_ErrorAnswer)
        except msgspec.MsgspecError:
            error = _ErrorAnswer(response.reason)
        message = f"{self._url} answered {response.status}: {one_line(error.message)}"
        if response.status not in _TRANSIENT:
            if location := response.getheader("Location"):
                message += f"; --url must be where it redirects to, {one_line(location)}"
            return OperationError(message)
        if response.status == HTTPStatus.TOO_MANY_REQUESTS and error.lines_stored_through:
            # The token allows this number of rows at once.
            self._rows_max = min(self._rows_max, error.lines_stored_through)
        pause = response.getheader("Retry-After", "")
        pause_seconds = int(pause) if re.fullmatch("[0-9]{1,6}", pause) else 0
        return InterruptedRequestError(message, pause_seconds)

    @contextlib.contextmanager
    def _interruptible(self) -> Iterator[None]:
        """Raise InterruptedRequestError for errors of the connection in this block."""
        try:
            yield
        except ssl.SSLCertVerificationError as error:
            raise OperationError(
                f"The certificate of {self._url} is not trusted: {error.verify_message}"
            ) from error
        except OSError as error:
            raise InterruptedRequestError(f"{self._url}: {error.strerror or error}") from error
        except http.client.HTTPException as error:
            reason = str(error) or type(error).__name__
            raise InterruptedRequestError(f"{self._url}: {reason}") from error

    def _not_a_service(self) -> OperationError:
        return OperationError(f"{self._url} sent something else; is it a plant store?")


def _is_about(result: ImportResult, rows: Sequence[Row]) -> bool:
    """Return whether a result has an outcome for each of these rows, and each error is of one."""
    errors = result.errors or []
    return (
        result.rows() == len(rows)
        and len(errors) == result.refused
        and all(1 <= error.line <= len(rows) for error in errors)
    )
