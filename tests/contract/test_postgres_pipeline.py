"""Statements in one round trip: each has its own rows, its own commit and its own error."""

from concurrent.futures import ThreadPoolExecutor

import psycopg
import pytest
from psycopg import errors

from plantstore.storage.postgres.pipeline import Pipeline, Statement
from support.postgres import connected, execute, wait_until

ADD = "INSERT INTO numbers (id, name) VALUES (%b, %b) RETURNING id"
COUNT = Statement("SELECT count(*) FROM numbers")


@pytest.fixture(autouse=True)
def _table(url: str) -> None:
    execute(url, "CREATE TABLE numbers (id bigint PRIMARY KEY, name text)")


def test_each_statement_returns_its_rows_whatever_the_types_of_its_values(url: str) -> None:
    with connected(url) as connection:
        pipeline = Pipeline(connection)

        for id_ in (1, 2**20, 2**40, 2, 2**41):
            assert pipeline.execute(Statement(ADD, (id_, "a")), COUNT)[0] == [(id_,)]

        assert pipeline.execute(COUNT, COUNT) == [[(5,)], [(5,)]]
        assert connection.execute("SELECT 1").fetchall() == [(1,)]


def test_a_failed_statement_rolls_back_no_other_and_the_connection_stays_usable(url: str) -> None:
    with connected(url) as connection:
        pipeline = Pipeline(connection)
        pipeline.execute(Statement(ADD, (1, "a")))

        for id_ in (2, 3):
            with pytest.raises(errors.UniqueViolation):
                pipeline.execute(Statement(ADD, (1, "b")), Statement(ADD, (id_, "b")))

        assert pipeline.execute(COUNT) == [[(3,)]]


def test_a_statement_that_could_not_be_prepared_is_prepared_again(url: str) -> None:
    with connected(url) as connection:
        pipeline = Pipeline(connection)
        statement = Statement("SELECT number FROM later")

        for _ in range(2):
            with pytest.raises(errors.UndefinedTable):
                pipeline.execute(statement, COUNT)

        execute(url, "CREATE TABLE later AS SELECT 7 AS number")
        assert pipeline.execute(statement, COUNT) == [[(7,)], [(0,)]]


def test_a_connection_that_the_server_terminates_reports_the_reason_and_is_closed(url: str) -> None:
    with connected(url) as connection, ThreadPoolExecutor(1) as pool:
        pid = connection.pgconn.backend_pid
        asked = pool.submit(Pipeline(connection).execute, Statement("SELECT pg_sleep(60)"), COUNT)
        sleeping = f"SELECT count(*) FROM pg_stat_activity WHERE pid = {pid} AND state = 'active'"
        wait_until(lambda: execute(url, sleeping) == [(1,)])

        execute(url, f"SELECT pg_terminate_backend({pid})")

        with pytest.raises(psycopg.OperationalError, match="terminating connection"):
            asked.result(60)
        assert connection.closed
