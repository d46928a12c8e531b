"""A proxy before one broker. It knows the requests and answers of each connection, and harms single ones.

Each connection has two pumps, one each way, which pass whole frames on. A request may meet one fault (`WaitingFaults`).
Faults of requests act at once. Faults of answers go with the request until its answer comes: a broker answers in order,
so the oldest request owns the next answer. A fault took effect when its bytes were harmed, and is reported then, with
the client's request that it met; where the connection ended before, it took none.

One thread with an event loop for each proxy.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import struct
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from functools import partial
from types import TracebackType
from typing import NamedTuple

from kafkasource.kafka.protocol.apis import SASL_HANDSHAKE
from kafkasource.testing.broker.properties import HOST, free_ports
from lab.campaign.faults import Fault
from lab.campaign.storm.waiting import Asked, WaitingFault, WaitingFaults

THIN_BYTES_PER_S = 20_000.0
THIN_PIECE_BYTES = 2_000
HALF_OPEN_S = 60.0  # a client gives such a connection up long before
BACKLOG = 128

OF_ANSWERS = frozenset(
    ("cut in an answer", "answer lost", "answer truncated", "answer delayed", "stalled in an answer")
)
Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Met(NamedTuple):
    """Where a fault took effect."""

    node: int
    api_key: int
    at_byte: int
    of_bytes: int


Report = Callable[[WaitingFault, Met], None]


class Cut(Exception):
    """The connection ends here, with RST both ways."""


class StormProxy:
    """`with` it the proxy runs. `upstream` is set before."""

    def __init__(
        self, node: int, waiting: WaitingFaults, report: Report, tls: Callable[[], ssl.SSLContext] | None = None
    ) -> None:
        """`report` and `tls` are called by the proxy's thread. `tls`: for each client that connects; None: without."""
        self.upstream: tuple[str, int] | None = None
        self.node, self.waiting, self.report, self._tls = node, waiting, report, tls
        # Below the ports that the system gives to outgoing connections, so that it is ours while it takes none.
        self._listener = socket.socket()
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self._listener.bind((HOST, free_ports(1)[0]))
        self._listener.listen(BACKLOG)
        self.address: tuple[str, int] = self._listener.getsockname()
        self.renewals = 0  # sessions that clients renewed on their connections
        self.refused_handshakes: list[str] = []  # why TLS refused a client, or a client the proxy
        self._refusals = 0  # faults because of which it takes no connections now
        self._may_accept = asyncio.Event()
        self._conversations: set[_Conversation] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"storm-proxy-{node}")

    def __enter__(self) -> StormProxy:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._listener.close()

    def serves(self) -> bool:
        """Does a client of ours have a connection to this node that carried a request?"""
        return any(conversation.of_ours for conversation in list(self._conversations))

    def _run(self) -> None:
        asyncio.set_event_loop(self._loop)
        self.in_background(self._accept())
        self._loop.run_forever()
        for conversation in self._conversations:
            conversation.end()
        for task in self._tasks:
            task.cancel()
        self._loop.run_until_complete(asyncio.gather(*self._tasks, return_exceptions=True))
        self._loop.close()

    def in_background(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = self._loop.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _accept(self) -> None:
        self._listener.setblocking(False)
        self._may_accept.set()
        while True:
            await self._may_accept.wait()
            try:
                client, _ = await self._loop.sock_accept(self._listener)
            except OSError:  # it takes none at the moment
                await asyncio.sleep(0.005)
                continue
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            # Also where the proxy ends before the task has begun.
            self.in_background(self._serve(client)).add_done_callback(partial(_reset, client))

    async def _serve(self, client: socket.socket) -> None:
        """Whoever calls closes `client` behind it."""
        assert self.upstream is not None
        try:
            broker = await asyncio.open_connection(*self.upstream)
        except OSError:
            return
        try:
            await self._converse(client, broker)
        finally:
            broker[1].transport.abort()

    async def _converse(self, client: socket.socket, broker: Stream) -> None:
        try:
            stream = await self._stream(client)
        except OSError as error:  # also where the client went meanwhile
            if isinstance(error, ssl.SSLError) and not isinstance(error, ssl.SSLEOFError):
                self.refused_handshakes.append(str(error))
            return
        conversation = _Conversation(self, stream, broker)
        self._conversations.add(conversation)
        try:
            await conversation.run()
        finally:
            self._conversations.discard(conversation)
            conversation.end()

    async def _stream(self, client: socket.socket) -> Stream:
        """Raises OSError, of which an SSLError is one."""
        reader = asyncio.StreamReader()
        protocol = asyncio.StreamReaderProtocol(reader)
        context = self._tls() if self._tls is not None else None
        transport, _ = await self._loop.connect_accepted_socket(lambda: protocol, client, ssl=context)
        return reader, asyncio.StreamWriter(transport, protocol, reader, self._loop)

    async def refuse(self, lasts_s: float) -> None:
        """Take no connections: the system refuses them."""
        self._refusals += 1
        if self._refusals == 1:
            self._may_accept.clear()
            self._listener.shutdown(socket.SHUT_RDWR)
        await asyncio.sleep(lasts_s)
        self._refusals -= 1
        if not self._refusals:
            self._listener.listen(BACKLOG)
            self._may_accept.set()


class _Conversation:
    """One connection through the proxy."""

    def __init__(self, proxy: StormProxy, client: Stream, broker: Stream) -> None:
        self._proxy = proxy
        self._from_client, self._to_client = client
        self._from_broker, self._to_broker = broker
        self._asked: deque[tuple[Asked, WaitingFault | None]] = deque()  # without answers yet
        self._goes_on = asyncio.Event()  # not set: nothing passes, either way
        self._goes_on.set()
        self._thin_until_s = 0.0
        self._swallows = False
        self._handshakes = 0
        self.of_ours = False

    async def run(self) -> None:
        """Until one of both sides ends it, or a fault."""
        pumps = [asyncio.ensure_future(self._requests()), asyncio.ensure_future(self._answers())]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            for error in await asyncio.gather(*pumps, return_exceptions=True):
                if isinstance(error, Exception) and not isinstance(error, (OSError, EOFError, Cut)):
                    raise error

    def end(self) -> None:
        for writer in (self._to_client, self._to_broker):
            sock = writer.get_extra_info("socket")
            if sock is not None:  # none is known of a TLS connection that has ended
                _reset(sock)
            writer.transport.abort()

    async def _requests(self) -> None:
        while True:
            frame = await _frame(self._from_client)
            asked = _asked(frame)
            waiting = self._proxy.waiting.take(self._proxy.node, asked)
            self.of_ours = self.of_ours or asked.client_id == self._proxy.waiting.client_id
            if asked.api_key == SASL_HANDSHAKE.key:
                self._proxy.renewals += self._handshakes > 0
                self._handshakes += 1
            if waiting is None:
                self._asked.append((asked, None))
                await self._pass(self._to_broker, frame)
            elif waiting.fault.kind in OF_ANSWERS:
                self._asked.append((asked, waiting))
                await self._pass(self._to_broker, frame)
            else:
                self._asked.append((asked, None))
                await self._harm_request(waiting, asked, frame)

    async def _answers(self) -> None:
        while True:
            frame = await _frame(self._from_broker)
            asked, waiting = self._asked.popleft()
            if waiting is None:
                await self._pass(self._to_client, frame)
            else:
                await self._harm_answer(waiting, asked, frame)

    async def _pass(self, to: asyncio.StreamWriter, data: bytes) -> None:
        await self._goes_on.wait()
        if self._swallows:
            return
        while data and self._proxy_time_s() < self._thin_until_s:
            piece, data = data[:THIN_PIECE_BYTES], data[THIN_PIECE_BYTES:]
            to.write(piece)
            await asyncio.sleep(len(piece) / THIN_BYTES_PER_S)
        to.write(data)
        await to.drain()

    @staticmethod
    def _proxy_time_s() -> float:
        return asyncio.get_running_loop().time()

    def _met(self, waiting: WaitingFault, asked: Asked, at: int, frame: bytes) -> None:
        self._proxy.report(waiting, Met(self._proxy.node, asked.api_key, at, len(frame)))

    async def _stall(self, to: asyncio.StreamWriter, frame: bytes, at: int, lasts_s: float) -> None:
        await self._pass(to, frame[:at])
        self._goes_on.clear()
        await asyncio.sleep(lasts_s)
        self._goes_on.set()
        await self._pass(to, frame[at:])

    async def _harm_request(self, waiting: WaitingFault, asked: Asked, frame: bytes) -> None:
        fault, to = waiting.fault, self._to_broker
        at = place(fault, len(frame))
        await self._goes_on.wait()
        self._met(waiting, asked, at, frame)
        if fault.kind == "request delayed":
            await asyncio.sleep(fault.lasts_s)
            await self._pass(to, frame)
        elif fault.kind == "stalled in a request":
            await self._stall(to, frame, at, fault.lasts_s)
        elif fault.kind == "thin connection":
            self._thin_until_s = self._proxy_time_s() + fault.lasts_s
            await self._pass(to, frame)
        elif fault.kind == "half open":
            await self._pass(to, frame[:at])
            self._swallows = True
            await asyncio.sleep(HALF_OPEN_S)
            raise Cut
        else:
            if fault.kind == "refused":
                self._proxy.in_background(self._proxy.refuse(fault.lasts_s))
            await self._pass(to, frame[:at])
            raise Cut

    async def _harm_answer(self, waiting: WaitingFault, asked: Asked, frame: bytes) -> None:
        fault, to = waiting.fault, self._to_client
        at = place(fault, len(frame))
        await self._goes_on.wait()
        if self._swallows:
            return
        self._met(waiting, asked, at, frame)
        if fault.kind == "answer delayed":
            await asyncio.sleep(fault.lasts_s)
            await self._pass(to, frame)
        elif fault.kind == "stalled in an answer":
            await self._stall(to, frame, at, fault.lasts_s)
        elif fault.kind == "answer truncated":
            kept = frame[4 : max(at, 8)][: len(frame) - 5]  # with the correlation id, and a byte less than all at least
            await self._pass(to, struct.pack(">i", len(kept)) + kept)
        else:
            if fault.kind == "cut in an answer":
                await self._pass(to, frame[:at])
            raise Cut


def place(fault: Fault, size: int) -> int:
    """At which byte of a frame: 0 is before its first, `size` behind its last. Of an answer something is always
    missing."""
    return int(fault.draw * (size if fault.kind in OF_ANSWERS else size + 1))


async def _frame(reader: asyncio.StreamReader) -> bytes:
    size = await reader.readexactly(4)
    return size + await reader.readexactly(struct.unpack(">i", size)[0])


def _asked(frame: bytes) -> Asked:
    # int32 size | int16 api_key | int16 api_version | int32 correlation_id | string client_id
    api_key, length = struct.unpack_from(">4xh6xh", frame)
    return Asked(api_key, frame[14 : 14 + max(length, 0)].decode())


def _reset(sock: socket.socket, _: object = None) -> None:
    with contextlib.suppress(OSError):  # closed by now
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        if isinstance(sock, socket.socket):  # not one of a transport, which closes it
            sock.close()
