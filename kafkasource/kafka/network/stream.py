"""An open socket and the conversation on it: bytes that wait to be written, answers as they come.

It decides nothing: what its end means is the link's affair. Methods raise OSError when the stream broke or ended. The
thread that polls the client calls them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator

from kafkasource.kafka.network.connection import Connection, Parts, Received
from kafkasource.kafka.network.pending import Pending
from kafkasource.kafka.network.poller import READ, WRITE, Selector
from kafkasource.kafka.network.sockets import Transport


class Stream:
    """`served_by` is what the selector's keys have as their data."""

    def __init__(
        self, transport: Transport, connection: Connection[Pending], selector: Selector, served_by: object
    ) -> None:
        self.transport = transport
        self.connection = connection
        self.out: deque[memoryview | Pending] = deque()  # bytes to write; a Pending: done once all before it is written
        self.emptied = False  # did the last `receive` take all that the socket had?
        self._selector, self._served_by = selector, served_by
        self._events = WRITE  # a socket that gets writable is connected
        selector.register(transport, WRITE, served_by)

    def pending(self) -> Iterator[Pending]:
        """Requests that are not written whole, or not answered."""
        yield from (item for item in self.out if isinstance(item, Pending))
        yield from self.connection.tokens()

    def receive(self) -> Received[Pending] | None:
        """Read the next bytes from the broker and return their result; None: no bytes have come."""
        target = self.connection.writable()
        size = self.transport.receive_into(target)
        if size is None:
            return None
        if size == 0:
            raise ConnectionError("the broker closed the connection")
        self.emptied = size < len(target)  # if it is not, select says so
        return self.connection.received(size)

    @property
    def unread(self) -> bool:
        """Is there something to receive that the selector does not tell of?"""
        return self.transport.unread

    def await_handshake(self) -> None:
        """The transport connects no further without bytes from the broker, or before it has sent its own."""
        self._want(READ if self.transport.flush() else READ | WRITE)

    def put(self, parts: Parts) -> None:
        """Bytes for the next `write`."""
        self.out.extend(memoryview(part).cast("B") for part in parts if len(part))

    def write(self, completed: list[Pending]) -> int:
        """Write as much as the socket takes; bytes written. Requests without answer that are done by that are added to
        `completed`."""
        out, written = self.out, 0
        flushed = self.transport.flush()
        while out:
            first = out[0]
            if isinstance(first, Pending):
                out.popleft()
                first.finish({}, None)
                completed.append(first)
                continue
            sent = self.transport.send(self._pieces())
            if not sent:
                break
            written += sent
            self._taken(sent)
            flushed = self.transport.flush()
        self._want(READ if flushed and not out else READ | WRITE)
        return written

    def _pieces(self) -> list[memoryview]:
        pieces: list[memoryview] = []
        for item in self.out:
            if isinstance(item, Pending):
                break
            pieces.append(item)
        return pieces

    def _taken(self, sent: int) -> None:
        out = self.out
        while sent:
            first = out[0]
            assert not isinstance(first, Pending)
            if sent < len(first):
                out[0] = first[sent:]
                return
            sent -= len(first)
            out.popleft()

    def _want(self, events: int) -> None:
        if self._events != events:
            self._selector.modify(self.transport, events, self._served_by)
            self._events = events

    def close(self) -> None:
        self.out.clear()
        self._selector.unregister(self.transport)
        self.transport.close()


class BudgetedFrames:
    """The memory of answers, from the process's budget. It imports Arrow, so clients without large answers have
    none."""

    def take(self, at_least: int, at_most: int) -> memoryview:
        from kafkasource.kafka.network.receive_memory import frame_buffers

        return frame_buffers().take(at_least, at_most)
