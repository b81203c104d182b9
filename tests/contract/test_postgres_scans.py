"""Scans of a PostgreSQL server that hangs."""

import contextlib
import signal
import threading

import pytest

from plantstore.errors import StoreUnavailableError
from plantstore.plants import NewPlant
from plantstore.storage import open_store
from support.postgres import Programs, Server

PLANTS = [NewPlant(id_, "a") for id_ in range(2_500)]


def test_a_scan_fails_when_the_server_does_not_answer_in_time(postgres_programs: Programs) -> None:
    with Server(postgres_programs, "scan_hangs") as server:
        database = server.url() + "?options=-cstatement_timeout%3D200"
        with contextlib.closing(open_store(database)) as store:
            store.apply_changes(PLANTS)
            scan = store.scan_plants()
            assert len(next(scan)) == 1_000
            server.signal_all(signal.SIGSTOP)

            with pytest.raises(StoreUnavailableError):
                next(scan)

            server.signal_all(signal.SIGCONT)
            assert sum(map(len, store.scan_plants())) == len(PLANTS)


def test_closing_a_scan_does_not_wait_for_a_server_that_hangs(postgres_programs: Programs) -> None:
    with Server(postgres_programs, "close_hangs") as server:
        database = server.url() + "?options=-cstatement_timeout%3D1h"
        with contextlib.closing(open_store(database)) as store:
            store.apply_changes(PLANTS)
            scan = store.scan_plants()
            assert len(next(scan)) == 1_000
            server.signal_all(signal.SIGSTOP)
            closing = threading.Thread(target=scan.close)

            closing.start()
            closing.join(30)

            waits = closing.is_alive()
            server.signal_all(signal.SIGCONT)
            closing.join(60)
            assert not waits
