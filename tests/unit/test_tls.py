"""TLS between a transport without a socket and a connection, on virtual time."""

import contextlib
import ssl
from collections.abc import Callable, Iterator

import pytest

from plantstore.server.connection import PIECE_BYTES, Connection
from plantstore.server.tls import Tls
from support.certificates import Pair, make_pair
from support.virtual_time import EVERYTHING, GET, FakeTransport, Served, responding

SIZE = 700_000


class Client:
    """A client with TLS, which has shaken hands.

    Attributes:
        tls: the server's side.
        transport: that of the server.
        received: what the client has decrypted.
        has_ended: whether the server has said that it sends nothing more.

    """

    def __init__(self, served: Served, pair: Pair) -> None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(pair.certificate, pair.key)
        self.tls = Tls(Connection(served.server, served.loop), context, served.loop)
        self.transport = FakeTransport(served.loop, self.tls)
        self.transport.notify = self._decrypt
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = ssl.create_default_context(cafile=pair.certificate).wrap_bio(
            self._incoming, self._outgoing, server_hostname="localhost"
        )
        self._taken = 0
        self.received = b""
        self.has_ended = False

    def shake_hands(self) -> None:
        for _ in range(3):
            with contextlib.suppress(ssl.SSLWantReadError):
                self._tls.do_handshake()
            self._send_encrypted()
            self.transport.read(self.transport.get_write_buffer_size())

    def send(self, *records: bytes) -> None:
        for record in records:
            self._tls.write(record)
        self._send_encrypted()

    def end(self) -> None:
        """Say that nothing more will be sent."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._send_encrypted()

    def _send_encrypted(self) -> None:
        if self._outgoing.pending:
            self.transport.arrive(self._outgoing.read())

    def _decrypt(self) -> None:
        self._incoming.write(self.transport.sent[self._taken :])
        self._taken = len(self.transport.sent)
        with contextlib.suppress(ssl.SSLError):  # before the end of the handshake, or of a record
            with contextlib.suppress(ssl.SSLZeroReturnError):
                while piece := self._tls.read(SIZE):
                    self.received += piece
            self.has_ended = True


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    return make_pair(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def served() -> Iterator[Served]:
    with Served(responding(b"x" * SIZE)) as served:
        yield served


@pytest.fixture
def connect(served: Served, pair: Pair) -> Callable[[], Client]:
    """Return what connects a client that reads nothing yet."""

    def connected() -> Client:
        client = Client(served, pair)
        client.shake_hands()
        return client

    return connected


@pytest.fixture
def client(connect: Callable[[], Client]) -> Client:
    """Return a client that reads everything."""
    client = connect()
    client.transport.read(EVERYTHING)
    return client


def test_responses_over_tls_arrive_and_what_is_held_of_them_counts(
    served: Served, connect: Callable[[], Client]
) -> None:
    client = connect()
    client.send(GET + GET)
    served.run()

    assert SIZE + PIECE_BYTES < served.budget.unread_bytes < SIZE + PIECE_BYTES + 500
    assert PIECE_BYTES < client.transport.get_write_buffer_size() < PIECE_BYTES + 600

    client.transport.read(EVERYTHING)
    served.run()
    assert client.received.count(b"HTTP/1.1 200 OK") == 2
    assert client.received.count(b"x" * SIZE) == 2
    assert served.budget.unread_bytes == 0


def test_a_client_with_tls_that_reads_too_slowly_is_disconnected(
    served: Served, connect: Callable[[], Client]
) -> None:
    slow, fast = connect(), connect()
    for client in (slow, fast):
        client.send(GET)
    for _ in range(5):
        served.run(9)
        slow.transport.read(20_000)
        fast.transport.read(80_000)

    assert (slow.transport.is_aborted, fast.transport.is_aborted) == (True, False)


def test_requests_that_are_sent_ahead_over_tls_count_and_no_more_is_read(
    served: Served, connect: Callable[[], Client]
) -> None:
    client = connect()
    client.send(GET, GET, b"x" * 50_000)
    served.run()

    assert served.budget.incoming_bytes >= 50_000
    assert not client.transport.is_read


def test_records_that_arrive_together_are_one_piece(served: Served, client: Client) -> None:
    """Only after many small pieces is a connection not read for a while."""
    client.send(*(bytes([byte]) for byte in GET[:-1]))
    is_read = client.transport.is_read
    client.send(GET[-1:])
    served.run()

    assert is_read
    assert client.received.startswith(b"HTTP/1.1 200 OK")


def test_a_client_that_ends_its_connection_is_told_the_same(served: Served, client: Client) -> None:
    client.end()
    served.run()

    assert client.has_ended
    assert client.transport.is_lost
    assert not served.server.connections


def test_the_last_response_is_followed_by_an_end(served: Served, client: Client) -> None:
    client.send(b"GET / HTTP/1.0\r\n\r\n")
    served.run()

    assert client.received.endswith(b"x" * SIZE)
    assert client.has_ended
    assert client.transport.is_closing()


def test_a_client_that_ends_its_connection_after_the_service_aborts_nothing(
    served: Served, client: Client
) -> None:
    client.send(b"POST / HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n\r\n")
    served.run()
    is_told_early = client.has_ended and not client.transport.is_closing()
    client.end()
    served.run()

    assert is_told_early
    assert client.transport.is_lost
    assert not client.transport.is_aborted


@pytest.mark.parametrize("size", [1, 5, 50_000])
def test_a_client_that_breaks_tls_is_disconnected_and_others_are_served(
    served: Served, connect: Callable[[], Client], client: Client, size: int
) -> None:
    broken = connect()
    broken.transport.arrive(b"x" * size)
    client.send(GET)
    served.run()

    assert broken.transport.is_aborted is (size >= 5)
    assert client.received.startswith(b"HTTP/1.1 200 OK")


def test_a_connection_that_ends_during_the_handshake_is_never_one_of_the_server(
    served: Served, pair: Pair
) -> None:
    client = Client(served, pair)
    client.transport.arrive(b"\x16\x03\x01")
    client.transport.leave()
    served.run()

    assert client.tls.handshake.cancelled()
    assert not served.server.connections
