"""How the head of an answer is written."""

from typing import Any, Final

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

# Fields of each answer. Answers are for who has the token: no cache may keep them (RFC 9111
# §5.2.2.5), unless one says otherwise. And no browser may take an answer for something else
# than what it is declared to be.
NO_STORE: Final = (b"cache-control", b"no-store")
NO_SNIFF: Final = (b"x-content-type-options", b"nosniff")


class AnswerCycle(RequestResponseCycle):
    """uvicorn's cycle of a request, which writes the head of an answer in its own way.

    uvicorn searches each name and each value for characters that they must not have. Here
    the line ends of the whole head are counted, which costs less than the two fields that
    are added.
    """

    async def send(self, message: Any) -> None:  # noqa: ANN401 (uvicorn's)
        """Write a part of the answer, as uvicorn does."""
        if self.response_started:
            await super().send(message)
            return
        if self.flow.write_paused and not self.disconnected:
            await self.flow.drain()
        if not self.disconnected:
            await self._begin(message)

    async def _begin(self, message: Any) -> None:  # noqa: ANN401 (uvicorn's)
        fields = [*self.default_headers, *message["headers"], NO_SNIFF]
        length = None
        is_kept = False
        for name, value in message["headers"]:
            if name == b"content-length":
                length = int(value)
            elif name == b"cache-control":
                is_kept = True
        if not is_kept:
            fields.append(NO_STORE)
        if length is None:  # or the answer comes in chunks, or has no body
            await super().send(message | {"headers": fields[len(self.default_headers) :]})
            return
        if not self.keep_alive:
            fields.append((b"connection", b"close"))
        head = b"".join([b"%b: %b\r\n" % field for field in fields])
        if not head.count(b"\r") == head.count(b"\n") == len(fields):
            raise RuntimeError("A field of the answer has a line end in it")
        self.response_started = True
        self.waiting_for_100_continue = False
        self.expected_content_length = length
        self.chunked_encoding = False
        self.transport.write(b"%b%b\r\n" % (STATUS_LINE[message["status"]], head))
