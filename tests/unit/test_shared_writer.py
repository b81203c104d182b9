"""The messages between a worker and the process that writes, and its transactions."""

import contextlib
import os
import socket
import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection

import msgspec
import pytest

from plantstore.changes import (
    ANY,
    Change,
    Conditional,
    Deletion,
    Outcome,
    Patch,
    Precondition,
    Replacement,
    Upsert,
)
from plantstore.commit import remote_writer, writer_process
from plantstore.commit.messages import (
    MALFORMED,
    MESSAGE_BYTES_MAX,
    Applied,
    Apply,
    Failed,
    Ready,
    Response,
    apply_message,
    parse_request,
    parse_response,
    to_bytes,
)
from plantstore.commit.remote_writer import RemoteWriter
from plantstore.commit.writer_process import listen
from plantstore.errors import (
    BatchRefusedError,
    OperationError,
    StoreUnavailableError,
    StoreUnreachableError,
)
from plantstore.observe import Committed, Event, Observer, ignore
from plantstore.plants import NewPlant, Plant, PlantPatch
from plantstore.store import PlantWrites
from support.fake_store import FailingStore, FakeStore, GatedStore
from support.postgres import wait_until
from support.shared_writer import serving, writing

BATCH: list[Change] = [
    Deletion(1),
    NewPlant(-(2**63), "a", "t"),
    Upsert(NewPlant(2, "Rosa ×")),
    NewPlant(2**63 - 1, "\U0001f33f"),
    Conditional(Patch(3, PlantPatch(tag=None)), Precondition(ANY, frozenset({'"0a"'}))),
    Replacement(4, Plant("b")),
]


def test_a_batch_is_the_same_after_it_was_sent() -> None:
    sent = parse_request(to_bytes(apply_message(BATCH)))

    assert isinstance(sent, Apply)
    assert sent.changes == BATCH


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\x91", b"\xc0", b"\x91\x09", b"\x91\x03\x00", b"\x91\xa1\xff", b"\x91" * 9999),
    ],
)
def test_bytes_that_are_no_message_are_malformed(body: bytes) -> None:
    for parse in (parse_request, parse_response):
        with pytest.raises(MALFORMED):
            parse(body)


def test_an_id_outside_int64_is_malformed() -> None:
    with pytest.raises(MALFORMED):
        parse_request(msgspec.msgpack.encode([1, [{"id": 2**63, "name": "a"}], []]))


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError("in doubt", "why"),
        StoreUnreachableError("nothing done", "why"),
        BatchRefusedError("refused", "why"),
        OperationError("no ids are left"),
        MemoryError("no memory"),
    ],
)
def test_an_error_of_the_store_reaches_the_worker(error: Exception) -> None:
    sent = parse_response(to_bytes(Failed.of(error)))

    assert isinstance(sent, Failed)
    assert type(sent.error) is type(error)
    assert str(sent.error) == str(error)
    assert getattr(sent.error, "reason", "") == getattr(error, "reason", "")


def test_an_unexpected_error_is_named_for_the_operator() -> None:
    assert str(Failed.of(ZeroDivisionError("by zero")).error) == "ZeroDivisionError: by zero"


@contextlib.contextmanager
def workers_of(
    store: PlantWrites, number: int, observe: Observer = ignore
) -> Iterator[list[Connection]]:
    """Write with a store; yield connections, as workers have them, that were greeted."""
    with contextlib.ExitStack() as opened:
        entrance = opened.enter_context(writing(store, observe))
        yield [opened.enter_context(_connected(entrance)) for _ in range(number)]


@contextlib.contextmanager
def _connected(entrance: socket.socket) -> Iterator[Connection]:
    ours, theirs = socket.socketpair()
    with Connection(ours.detach()) as worker:
        with theirs:
            socket.send_fds(entrance, [b"+"], [theirs.fileno()])
        assert receive(worker) == Ready()
        yield worker


def send(worker: Connection, *plants: NewPlant) -> None:
    worker.send_bytes(to_bytes(apply_message(plants)))


def receive(worker: Connection) -> Response:
    assert worker.poll(30)
    return parse_response(worker.recv_bytes())


STORED = Applied([Outcome.STORED])


@pytest.mark.parametrize(
    ("batches", "transactions"),
    [
        ([[1], [1, 1], [1, 1, 1], [1, 1, 1, 1]], [1, 9]),
        # Long batches do not share a transaction.
        ([[1], [400], [400], [400], [2000]], [1, 1, 1, 2]),
    ],
)
def test_the_batches_of_several_workers_share_a_transaction_unless_they_are_long(
    monkeypatch: pytest.MonkeyPatch, batches: list[list[int]], transactions: list[int]
) -> None:
    monkeypatch.setattr(writer_process, "TRANSACTION_BYTES_MAX", 1000)
    store, events = GatedStore(), list[Event]()
    with workers_of(store, len(batches), events.append) as workers:
        for at, (worker, lengths) in enumerate(zip(workers, batches, strict=True)):
            send(worker, *(NewPlant(10 * at + n, "a" * long) for n, long in enumerate(lengths)))
            assert at or store.entered.acquire(timeout=30)
        store.let_go.release(len(batches))
        responses = [receive(worker) for worker in workers]

    assert responses == [Applied([Outcome.STORED] * len(batch)) for batch in batches]
    assert sorted(map(len, store.batches)) == transactions
    committed = [event for event in events if isinstance(event, Committed)]
    assert [len(event.outcomes) for event in committed] == [*map(len, store.batches)]


def test_probes_do_not_prevent_tidying(monkeypatch: pytest.MonkeyPatch) -> None:
    class Tidied(FakeStore):
        is_tidied = False

        def tidy(self) -> float:
            self.is_tidied = True
            return 0.01

    monkeypatch.setattr(writer_process, "IDLE_SECONDS", 0.1)
    store = Tidied()
    with writing(store) as entrance, contextlib.closing(RemoteWriter(entrance)) as worker:

        def probe() -> bool:
            worker.probe()
            return store.is_tidied

        wait_until(probe)


MORE_THAN_THE_KERNEL_HOLDS = to_bytes(apply_message([Deletion(1)] * 500_000))


@pytest.mark.parametrize(
    ("sent", "is_over"),
    [
        (struct.pack("!i", len(MORE_THAN_THE_KERNEL_HOLDS)) + MORE_THAN_THE_KERNEL_HOLDS, False),
        (struct.pack("!i", 100) + b"a", False),
        *((each, True) for each in (b"\xff" * 100, b"\0\0\0\3abc", b"\0\0\0\1", b"")),
        (struct.pack("!i", MESSAGE_BYTES_MAX + 1), True),
    ],
    ids=[
        *("responses that are not read", "half a message", "a negative length", "no message"),
        *("no body", "an end", "a message that is too long"),
    ],
)
def test_a_worker_that_stalls_or_sends_no_messages_is_disconnected_and_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
    sent: bytes,
    is_over: bool,  # noqa: FBT001 (pytest passes it by name)
) -> None:
    monkeypatch.setattr(writer_process, "_STALLED", struct.pack("ll", 0, 10_000))
    with workers_of(FakeStore(), 2) as (other, worker):
        with socket.socket(fileno=os.dup(worker.fileno())) as stream:
            stream.sendall(sent)
            if is_over:
                stream.shutdown(socket.SHUT_WR)
        send(other, NewPlant(1, "a"))

        assert receive(other) == STORED
        with pytest.raises((OSError, EOFError)):
            receive(worker)


def test_a_batch_that_the_store_refuses_does_not_affect_other_workers() -> None:
    def apply() -> list[str]:
        reasons = []
        for _ in range(50):
            with pytest.raises(BatchRefusedError) as refused:
                bad.apply_changes([NewPlant(13, "a"), NewPlant(14, "a")])
            reasons.append(refused.value.reason)
        return reasons

    with (
        writing(FailingStore(BatchRefusedError("refused", "unlucky"))) as entrance,
        contextlib.closing(RemoteWriter(entrance)) as good,
        contextlib.closing(RemoteWriter(entrance)) as bad,
        ThreadPoolExecutor() as threads,
    ):
        refused = threads.submit(apply)
        for id_ in range(100, 150):
            assert good.apply_changes([NewPlant(id_, "a")]) == [Outcome.STORED]

        assert refused.result() == ["unlucky"] * 50


def end_after_one_request(listener: socket.socket) -> None:
    """Greet a worker on both of its connections, receive one request, and end."""
    with contextlib.ExitStack() as opened:
        connections = []
        for _ in range(2):
            _, [descriptor], _, _ = socket.recv_fds(listener, 1, 1)
            connections.append(opened.enter_context(Connection(descriptor)))
            connections[-1].send_bytes(to_bytes(Ready()))
        assert connections[0].recv_bytes()


def test_a_change_is_in_doubt_if_the_writer_ends_before_its_response() -> None:
    listener, entrance = listen()
    with listener, entrance, ThreadPoolExecutor() as threads:
        ended = threads.submit(end_after_one_request, listener)
        with contextlib.closing(RemoteWriter(entrance)) as worker:
            with pytest.raises(StoreUnavailableError) as caught:
                worker.apply_changes([NewPlant(1, "a")])

            ended.result()
        assert not isinstance(caught.value, StoreUnreachableError)


def test_a_worker_connects_again_to_the_next_writer() -> None:
    listener, entrance = listen()
    with listener, entrance:
        with serving(FakeStore(), listener):
            worker = RemoteWriter(entrance)
            assert worker.apply_changes([NewPlant(1, "a")]) == [Outcome.STORED]
            worker.close()
        with serving(FakeStore(), listener):
            assert worker.apply_changes([NewPlant(1, "b")]) == [Outcome.STORED]
            assert worker.hand_out_ids(2) == range(2, 4)
            worker.probe()
            worker.close()


def test_a_response_is_not_taken_for_that_of_a_later_request(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def exhausted(_body: bytes) -> None:
        raise MemoryError

    with (
        writing(FakeStore()) as entrance,
        contextlib.closing(RemoteWriter(entrance)) as worker,
    ):
        with monkeypatch.context() as patched:
            patched.setattr(remote_writer, "parse_response", exhausted)
            with pytest.raises(MemoryError):
                worker.apply_changes([NewPlant(1, "a")])

        assert worker.apply_changes([Deletion(9)]) == [Outcome.NO_SUCH_PLANT]
        assert worker.apply_changes([NewPlant(1, "a")]) == [Outcome.ALREADY_STORED]


def test_nothing_was_done_if_no_writer_accepts_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_writer, "PATIENCE_SECONDS", 0.1)
    listener, entrance = listen()
    with listener, entrance, pytest.raises(StoreUnreachableError):
        RemoteWriter(entrance)
