"""The memory of imports whose clients are gone, over many of them."""

from pathlib import Path

from support.measured import resident_bytes, unread_bytes
from support.postgres import wait_until
from support.service import Service
from support.wire import Wire, head

MIB = 1024 * 1024


def test_the_memory_of_a_row_whose_client_is_gone_is_free_again(
    tmp_path: Path,
) -> None:
    with Service(tmp_path) as service:
        token = service.token()
        body = b'id,name\n1,"' + "é\n".encode() * 500_000
        fields = (b"Content-Type: text/csv", b"Content-Length: %d" % (len(body) + 1_000))
        request = head(token, *fields).replace(b"Content-Type: application/json\r\n", b"") + body

        def send_and_close() -> None:
            wire = Wire(service.port)
            wire.send(request)
            wait_until(lambda: unread_bytes(service) == 0)
            wire.close()

        send_and_close()
        before = resident_bytes(service)
        for _ in range(40):
            send_and_close()

        wait_until(lambda: resident_bytes(service) - before < 20 * MIB)
