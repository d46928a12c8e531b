"""A proxy that knows which answer is whose, and harms those that it is told to.

    with FrameProxy(("127.0.0.1", 9092)) as proxy:
        proxy.harm(FETCH, CUT, client_id="me")     # the next answer to a Fetch of that client, once
        proxy.faults_left                          # how many have not met their answer yet

A broker answers the requests of a connection in order, so the oldest one owns the next frame (all have answers: no
producer with acks=0 may come through here). Frames are passed on whole, and harmed in their middle.
"""

from __future__ import annotations

import struct
import threading
from collections import deque
from collections.abc import Iterator

from proxy import Harm, Proxy

from kafkasource.kafka.protocol.apis import Api

CUT = "cut"  # half of the answer, then the connection is reset
STALL = "stall"  # half of the answer, then nothing more of this connection, either way, though it stays open
TRUNCATE = "truncate"  # half of the answer in a frame that claims to be whole; the connection goes on
FAULTS = (CUT, STALL, TRUNCATE)

Asked = tuple[int, str]  # API key and client id


class FrameProxy(Proxy):
    def __init__(self, upstream: tuple[str, int] | None = None, port: int = 0) -> None:
        super().__init__(upstream, port)
        self._waiting: dict[Asked, deque[str]] = {}
        self._waiting_lock = threading.Lock()

    def harm(self, api: Api, *faults: str, client_id: str) -> None:
        """One answer each, in this order, behind the faults that wait for such answers already."""
        with self._waiting_lock:
            self._waiting.setdefault((api.key, client_id), deque()).extend(faults)

    @property
    def faults_left(self) -> int:
        with self._waiting_lock:
            return sum(map(len, self._waiting.values()))

    def take_fault(self, asked: Asked) -> str | None:
        with self._waiting_lock:
            waiting = self._waiting.get(asked)
            if not waiting:
                return None
            self.harmed += 1
            return waiting.popleft()

    def _harms(self) -> tuple[Harm, Harm]:
        conversation = _Conversation(self)
        return conversation.to_broker, conversation.to_client


class _Conversation:
    """One connection's requests and answers; each direction has a thread of its own."""

    def __init__(self, proxy: FrameProxy) -> None:
        self._proxy = proxy
        self._asked: deque[Asked] = deque()
        self._requests, self._answers = bytearray(), bytearray()
        self._stalled = False

    def to_broker(self, data: bytes) -> tuple[bytes, bool]:
        if self._stalled:
            return b"", False
        for frame in whole_frames(self._requests, data):
            # int32 size | int16 api_key | int16 api_version | int32 correlation_id | string client_id
            api_key, length = struct.unpack_from(">4xh6xh", frame)
            self._asked.append((api_key, frame[14 : 14 + max(length, 0)].decode()))
        return data, False

    def to_client(self, data: bytes) -> tuple[bytes, bool]:
        passed = b""
        if self._stalled:
            return passed, False
        for frame in whole_frames(self._answers, data):
            half = frame[: len(frame) // 2]
            fault = self._proxy.take_fault(self._asked.popleft())
            if fault is None:
                passed += frame
            elif fault == TRUNCATE:
                passed += struct.pack(">i", len(half) - 4) + half[4:]
            else:
                self._stalled = fault == STALL
                return passed + half, fault == CUT
        return passed, False


def whole_frames(buffer: bytearray, data: bytes) -> Iterator[bytes]:
    buffer += data
    while len(buffer) >= 4 and len(buffer) >= (size := 4 + struct.unpack_from(">i", buffer)[0]):
        frame = bytes(buffer[:size])
        del buffer[:size]
        yield frame
