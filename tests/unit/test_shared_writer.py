"""The messages between a worker and the process that writes, and its transactions."""

import contextlib
import socket
import struct
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import msgspec
import pytest

from plantstore.changes import (
    Change,
    Deletion,
    Outcome,
    Result,
)
from plantstore.commit import remote_writer, writer_process
from plantstore.commit.messages import (
    LENGTH_BYTES,
    MESSAGE_BYTES_MAX,
    Applied,
    Apply,
    Failed,
    Probe,
    ProtocolError,
    Ready,
    Response,
    apply_message,
    length_of,
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
from plantstore.plants import NewPlant
from plantstore.store import PlantWrites
from support.fake_store import FakeStore
from support.postgres import wait_until
from support.shared_writer import serving, writing


class SlowStore(FakeStore):
    """Keeps the batches that it got. `apply_changes` waits until it may go on."""

    def __init__(self) -> None:
        super().__init__()
        self.batches: list[int] = []
        self.has_begun = threading.Event()
        self.may_go_on = threading.Event()
        self.may_go_on.set()

    def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
        self.has_begun.set()
        assert self.may_go_on.wait(30)
        self.batches.append(len(changes))
        return super().apply_changes(changes)


@pytest.mark.parametrize(
    "others", [[(0, Deletion(1)), (0, Deletion(2))], [(5, Deletion(1))], [(-1, Deletion(1))]]
)
def test_a_batch_without_a_change_for_each_position_is_malformed(
    others: list[tuple[int, Deletion]],
) -> None:
    with pytest.raises(ProtocolError):
        Apply([NewPlant(1, "a")], list(others)).changes  # noqa: B018 (a property)


@pytest.mark.parametrize(
    "body",
    [
        *(b"", b"\x91", b"\xc0", b"\x91\x09", b"\x91\x03\x00", b"\x91\xa1\xff", b"\x91" * 9999),
    ],
)
def test_bytes_that_are_no_message_are_a_protocol_error(body: bytes) -> None:
    for parse in (parse_request, parse_response):
        with pytest.raises(ProtocolError):
            parse(body)


def test_an_id_outside_int64_is_a_protocol_error() -> None:
    with pytest.raises(ProtocolError):
        parse_request(msgspec.msgpack.encode([1, [{"id": 2**63, "name": "a"}], []]))


def test_a_message_over_the_limit_is_refused_by_its_length() -> None:
    assert length_of(struct.pack("!I", MESSAGE_BYTES_MAX)) == MESSAGE_BYTES_MAX
    with pytest.raises(ProtocolError):
        length_of(struct.pack("!I", MESSAGE_BYTES_MAX + 1))


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
    sent = parse_response(to_bytes(Failed.of(error))[LENGTH_BYTES:])

    assert isinstance(sent, Failed)
    assert type(sent.error) is type(error)
    assert str(sent.error) == str(error)
    assert getattr(sent.error, "reason", "") == getattr(error, "reason", "")


def test_an_unexpected_error_is_named_for_the_operator() -> None:
    assert str(Failed.of(ZeroDivisionError("by zero")).error) == "ZeroDivisionError: by zero"


@contextlib.contextmanager
def workers_of(
    store: PlantWrites, number: int, observe: Observer = ignore
) -> Iterator[list[socket.socket]]:
    """Write with a store; yield connections, as workers have them, that were greeted."""
    with contextlib.ExitStack() as opened:
        entrance = opened.enter_context(writing(store, observe))
        yield [opened.enter_context(_connected(entrance)) for _ in range(number)]


@contextlib.contextmanager
def _connected(entrance: socket.socket) -> Iterator[socket.socket]:
    worker, theirs = socket.socketpair()
    with worker:
        worker.settimeout(30)
        with theirs:
            socket.send_fds(entrance, [b"+"], [theirs.fileno()])
        assert receive(worker) == Ready()
        yield worker


def send(worker: socket.socket, *plants: NewPlant) -> None:
    worker.sendall(to_bytes(apply_message(plants)))


def receive(worker: socket.socket) -> Response:
    with worker.makefile("rb", buffering=0) as responses:
        length = length_of(responses.read(LENGTH_BYTES))
        body = b""
        while len(body) < length:
            body += responses.read(length - len(body))
    return parse_response(body)


STORED = Applied([Outcome.STORED])


def test_the_batches_of_several_workers_share_a_transaction() -> None:
    store, events = SlowStore(), list[Event]()
    batches = [[NewPlant(10 * at + each, "a") for each in range(at + 1)] for at in range(4)]
    with workers_of(store, 4, events.append) as workers:
        store.may_go_on.clear()
        for worker, batch in zip(workers, batches, strict=True):
            send(worker, *batch)
            assert store.has_begun.wait(30)
        store.may_go_on.set()
        responses = [receive(worker) for worker in workers]

    assert responses == [Applied([Outcome.STORED] * len(batch)) for batch in batches]
    assert store.batches == [1, 9]
    committed = [event for event in events if isinstance(event, Committed)]
    assert [len(event.outcomes) for event in committed] == [1, 9]


def test_long_batches_do_not_share_a_transaction(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer_process, "TRANSACTION_BYTES_MAX", 1000)
    store = SlowStore()
    with workers_of(store, 5) as workers:
        store.may_go_on.clear()
        for id_, (worker, length) in enumerate(zip(workers, [1, 400, 400, 400, 2000], strict=True)):
            send(worker, NewPlant(id_, "a" * length))
            assert store.has_begun.wait(30)
        store.may_go_on.set()
        responses = [receive(worker) for worker in workers]

    assert responses == [STORED] * 5
    assert sorted(store.batches) == [1, 1, 1, 2]


def test_a_request_that_arrives_in_pieces_does_not_wait_for_a_commit_after_each(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(writer_process, "PIECE_SECONDS", 30)
    monkeypatch.setattr(writer_process, "PIECES_SECONDS", 30)
    store = SlowStore()
    long = to_bytes(apply_message([NewPlant(1, "a" * 100)]))
    with workers_of(store, 2) as (slow, quick):
        store.may_go_on.clear()
        send(quick, NewPlant(2, "a"))
        assert store.has_begun.wait(30)
        slow.sendall(long[:50])
        store.may_go_on.set()
        assert receive(quick) == STORED
        send(quick, NewPlant(3, "a"))
        slow.sendall(long[50:])
        assert receive(slow) == receive(quick) == STORED

    assert store.batches == [1, 2]


def test_all_workers_that_ask_during_a_commit_share_one_probe() -> None:
    class Probed(SlowStore):
        probes = 0

        def probe(self) -> None:
            self.probes += 1

    store = Probed()
    with workers_of(store, 4) as (changing, *probing):
        store.may_go_on.clear()
        send(changing, NewPlant(1, "a"))
        assert store.has_begun.wait(30)
        for worker in probing:
            worker.sendall(to_bytes(Probe()))
        store.may_go_on.set()

        assert [receive(worker) for worker in probing] == [Ready()] * 3
    assert store.probes == 1


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


def test_a_worker_that_does_not_read_its_response_does_not_block_others() -> None:
    number = 500_000  # more responses than the kernel holds
    with workers_of(FakeStore(), 2) as (silent, other):
        send(silent, *(NewPlant(id_, "a") for id_ in range(number)))

        send(other, NewPlant(-1, "a"))
        assert receive(other) == STORED

        assert receive(silent) == Applied([Outcome.STORED] * number)


TOO_EARLY = to_bytes(apply_message([NewPlant(1, "a")])) * 2


@pytest.mark.parametrize("sent", [b"\xff" * 100, b"\0\0\0\3abc", b"\0\0\0\1", b"", TOO_EARLY])
def test_a_connection_with_malformed_or_early_messages_is_ended_and_others_are_served(
    sent: bytes,
) -> None:
    with workers_of(FakeStore(), 2) as (other, worker):
        worker.sendall(sent)
        worker.shutdown(socket.SHUT_WR)
        assert worker.recv(1) == b""

        send(other, NewPlant(2, "a"))
        assert receive(other) == STORED


def test_a_batch_that_the_store_refuses_does_not_affect_the_others_of_its_transaction() -> None:
    class Refusing(SlowStore):
        def apply_changes(self, changes: Sequence[Change]) -> list[Result]:
            outcomes = super().apply_changes(changes)
            if any(change.id == 13 for change in changes):
                for change in changes:
                    del self.plants[change.id]
                raise BatchRefusedError("refused", "unlucky")
            return outcomes

    store = Refusing()
    with workers_of(store, 3) as (first, bad, good):
        store.may_go_on.clear()
        for id_, worker in ((1, first), (13, bad), (2, good)):
            send(worker, NewPlant(id_, "a"))
            assert store.has_begun.wait(30)
        store.may_go_on.set()
        refused = receive(bad)
        assert receive(good) == STORED

    assert isinstance(refused, Failed)
    assert isinstance(refused.error, BatchRefusedError)
    assert store.batches == [1, 2, 1, 1]


def end_after_one_request(listener: socket.socket) -> None:
    """Greet a worker on both of its connections, receive one request, and end."""
    with contextlib.ExitStack() as opened:
        connections = []
        for _ in range(2):
            _, [descriptor], _, _ = socket.recv_fds(listener, 1, 1)
            connections.append(opened.enter_context(socket.socket(fileno=descriptor)))
            connections[-1].sendall(to_bytes(Ready()))
        assert connections[0].recv(1_000_000)


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
            patched.setattr(remote_writer, "length_of", exhausted)
            with pytest.raises(MemoryError):
                worker.apply_changes([NewPlant(1, "a")])

        assert worker.apply_changes([Deletion(9)]) == [Outcome.NO_SUCH_PLANT]
        assert worker.apply_changes([NewPlant(1, "a")]) == [Outcome.ALREADY_STORED]


def test_nothing_was_done_if_no_writer_accepts_connections(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote_writer, "PATIENCE_SECONDS", 0.1)
    listener, entrance = listen()
    with listener, entrance, pytest.raises(StoreUnreachableError):
        RemoteWriter(entrance)
