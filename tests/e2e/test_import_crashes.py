"""Imports over HTTP that break off: the service, the client or the database is gone."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from plantstore.api.imports import IMPORTS_MAX
from plantstore.errors import ErrorCode
from support.import_crashes import ImportCrashes
from support.postgres import execute, wait_until
from support.service import Answer, Service, opened, stored_plants
from support.streams import CSV, chunk, import_once, line, lines, reset, streaming_head
from support.wire import Wire, send_until_refused

# A batch has at least so many rows.
FIRST_BATCH_MIN = 500

# Rows of the import whose connections to the database are terminated.
ROWS = 20_000


def count_plants(service: Service) -> int:
    with opened(service.database) as store:
        return store.count_plants()


@pytest.mark.engines("sqlite", "postgres")
def test_after_kill_9_an_import_left_whole_transactions_and_is_completed_by_sending_it_again(
    tmp_path: Path,
) -> None:
    crashes = ImportCrashes(tmp_path)

    crashes.play_round()
    crashes.play_round()
    crashes.end()

    assert crashes.lost == set()
    assert len(crashes.kept) == 2


def test_clients_that_are_reset_leave_whole_transactions_and_their_places_are_free_again(
    tmp_path: Path,
) -> None:
    with Service(tmp_path, "--access-log") as service:
        token, other = service.token(), service.token(name="other")
        tokens = [token] * (IMPORTS_MAX // 2) + [other] * (IMPORTS_MAX // 2)
        threads = []
        refused = []
        for rounds in (1, 2):
            wires = [Wire(service.port) for _ in range(IMPORTS_MAX)]
            for number, (wire, its_token) in enumerate(zip(wires, tokens, strict=True)):
                ids = ids_of(rounds, number)
                rows = b"".join(b"%d,Abies\r\n" % id_ for id_ in ids)
                # The last row is cut. It would be a valid row.
                body = b"id,name\r\n" + rows + b"%d,Abi" % (ids[-1] + 1)
                wire.send(streaming_head(its_token, media_type=CSV) + chunk(body))
            wait_until(lambda rounds=rounds: has_first_batches(service, rounds))  # type: ignore[misc]
            threads.append(count_threads(service))
            refused.append(import_once(service, token, line(-1)))
            for wire in wires:
                reset(wire)
            ended = rounds * IMPORTS_MAX
            wait_until(lambda ended=ended: count_disconnected(service) == ended)  # type: ignore[misc]
        last = import_once(service, token, line(-1))
        plants = stored_plants(service.database)

    assert {(each.status, each.json["error"]) for each in refused} == {(503, ErrorCode.OVERLOADED)}
    assert last.status == 200
    for rounds in (1, 2):
        for number in range(IMPORTS_MAX):
            ids = ids_of(rounds, number)
            stored = plants.keys() & {*ids, ids[-1] + 1}
            assert FIRST_BATCH_MIN <= len(stored) <= len(ids)
            assert stored == {*ids[: len(stored)]}
    assert {plant.name for plant in plants.values()} == {"a", "Abies"}
    assert threads[1] < threads[0] + IMPORTS_MAX // 2


def has_first_batches(service: Service, rounds: int) -> bool:
    """Return whether a batch of each import of a round is stored."""
    plants = stored_plants(service.database)
    return all(
        ids_of(rounds, number)[FIRST_BATCH_MIN - 1] in plants for number in range(IMPORTS_MAX)
    )


def ids_of(rounds: int, number: int) -> range:
    """Return the ids of the complete rows of a client."""
    first = rounds * 1_000_000 + number * 10_000
    return range(first, first + 1_200)


def count_threads(service: Service) -> int:
    return len(list(Path(f"/proc/{service.process.pid}/task").iterdir()))


def count_disconnected(service: Service) -> int:
    return sum('"status": 499' in line for line in service.log)


@pytest.mark.engines("postgres")
def test_an_import_whose_database_connections_are_terminated_is_completed_by_sending_it_again(
    tmp_path: Path, database: str
) -> None:
    cut = """
        SELECT pg_terminate_backend(pid) FROM pg_stat_activity
        WHERE application_name = 'plantstore' AND pid <> pg_backend_pid()
    """

    def count(last: int) -> int:
        [(rows,)] = execute(database, f"SELECT count(*) FROM plants WHERE id <= {last}")
        return int(rows)

    def cut_repeatedly() -> None:
        for rows in range(2_000, 12_000, 2_000):
            wait_until(lambda rows=rows: count(ROWS) >= rows)  # type: ignore[misc]
            execute(database, cut)

    with Service(tmp_path) as service, ThreadPoolExecutor(1) as pool:
        token = service.token()
        body = lines(1, ROWS)
        cutting = pool.submit(cut_repeatedly)
        refused: list[Answer] = []
        while (answer := import_once(service, token, body)).status != 200:
            refused.append(answer)
        cutting.result(60)

        assert {each.json["error"] for each in refused} <= {ErrorCode.STORE_UNAVAILABLE}
        for each in refused:
            # Missing if the token could not be looked up, so that the import did not begin.
            through = each.json.get("lines_stored_through", 0)
            assert count(through) == through
        assert answer.json["stored"] + answer.json["already_stored"] == ROWS
        assert stored_plants(database).keys() == set(range(1, ROWS + 1))


def test_a_stop_ends_an_import_of_a_client_that_sends_without_end(tmp_path: Path) -> None:
    """The rows are not valid, so it ends while they are parsed."""
    with Service(tmp_path, "--stop-seconds", "1") as service, ThreadPoolExecutor(1) as pool:
        wire = Wire(service.port)
        wire.send(streaming_head(service.token()) + chunk(lines(1, 1_000)))
        sending = pool.submit(send_until_refused, wire, chunk(b"x\n" * 16_000))
        wait_until(lambda: count_plants(service) == 1_000)

        status = service.stop()

        sent = sending.result(60)
        wire.close()

    assert status == 0
    assert sent < 64 * 1024 * 1024
