"""Sends several statements to PostgreSQL at once. Each is a transaction of its own.

psycopg has pipelines, too. But each use of one waits several times, and each wait releases the
interpreter lock. This pipeline waits only for the results.
https://www.postgresql.org/docs/current/libpq-pipeline-mode.html has the rules.
"""

import re
from collections.abc import Sequence
from functools import lru_cache
from itertools import count
from typing import NamedTuple, TypeAlias

import psycopg
from psycopg import abc
from psycopg.adapt import PyFormat, Transformer
from psycopg.errors import error_from_result
from psycopg.pq import ExecStatus, Format, PipelineStatus
from psycopg.pq.abc import PGresult
from psycopg.rows import TupleRow
from psycopg.waiting import Wait

# A prepared statement: its SQL, and the types of its values.
Key: TypeAlias = tuple[str, tuple[int, ...]]


class Statement(NamedTuple):
    """SQL with `%b` or `%s` for each value that is bound in it, and these values."""

    query: str
    bindings: Sequence[object] = ()


class Pipeline:
    """Executes statements on a connection, several in one round trip. It prepares each once."""

    def __init__(self, connection: psycopg.Connection[TupleRow]) -> None:
        self._connection = connection
        # A name is used once, even if its statement could not be prepared.
        self._names: dict[Key, bytes] = {}
        self._numbers = count()

    def execute(self, *statements: Statement) -> list[list[TupleRow]]:
        """Execute statements, one after the other; return the rows of each.

        Raises:
            psycopg.Error: the error of the first statement that failed. The statements after
                it were executed, too.

        """
        transformers: list[abc.Transformer] = [Transformer(self._connection) for _ in statements]
        pgconn = self._connection.pgconn
        try:
            results = self._connection.wait(self._execute(statements, transformers))
        finally:
            if pgconn.pipeline_status != PipelineStatus.OFF:
                pgconn.finish()  # nobody would read the remaining results
        for result in results:
            _require_success(result)
        rows = []
        for transformer, result in zip(transformers, results, strict=True):
            transformer.set_pgresult(result)
            rows.append(transformer.load_rows(0, result.ntuples, tuple))
        return rows

    def _execute(
        self, statements: Sequence[Statement], transformers: Sequence[abc.Transformer]
    ) -> abc.PQGen[list[PGresult]]:
        pgconn = self._connection.pgconn
        pgconn.enter_pipeline_mode()
        keys = [self._send(*each) for each in zip(statements, transformers, strict=True)]
        while pgconn.flush():
            yield Wait.RW
            pgconn.consume_input()
        results = []
        for key in keys:
            *preparation, result = yield from self._results()
            if preparation and preparation[0].status == ExecStatus.FATAL_ERROR:
                del self._names[key]
                [result] = preparation
            results.append(result)
        pgconn.exit_pipeline_mode()
        return results

    def _results(self) -> abc.PQGen[list[PGresult]]:
        """Return the results of one statement: of its preparation, if it is new, and its own."""
        pgconn = self._connection.pgconn
        results: list[PGresult] = []
        while True:
            try:
                while pgconn.is_busy():
                    yield Wait.R
                    pgconn.consume_input()
            except psycopg.OperationalError:
                # The connection is lost. The server may have said why.
                for each in results:
                    _require_success(each)
                raise
            # Between two results there is None.
            if result := pgconn.get_result():
                if result.status == ExecStatus.PIPELINE_SYNC:
                    return results
                results.append(result)

    def _send(self, statement: Statement, transformer: abc.Transformer) -> Key:
        pgconn = self._connection.pgconn
        formats = [PyFormat.BINARY] * len(statement.bindings)
        values = transformer.dump_sequence(statement.bindings, formats)
        key = (statement.query, transformer.types or ())
        name = self._names.get(key)
        if name is None:
            name = self._names[key] = b"plantstore_%d" % next(self._numbers)
            pgconn.send_prepare(name, _numbered(statement.query), key[1])
        pgconn.send_query_prepared(name, values, transformer.formats, Format.BINARY)
        pgconn.pipeline_sync()
        return key


@lru_cache
def _numbered(query: str) -> bytes:
    """Return SQL with the placeholders of PostgreSQL's own protocol."""
    numbers = count(1)
    return re.sub("%[bs]", lambda _: f"${next(numbers)}", query).encode()


def _require_success(result: PGresult) -> None:
    if result.status == ExecStatus.FATAL_ERROR:
        raise error_from_result(result)
