"""Frames: requests to bytes, bytes to frames, frames to responses. No socket here; the client layer owns it.

    request    int32 length | header: api_key int16, api_version int16, correlation_id int32, client_id NULLABLE_STRING,
                              tagged fields where the request is flexible | body
    response   int32 length | header: correlation_id int32, tagged fields where the response is flexible | body

The length counts what follows it. ApiVersions answers with the header without tags in every version, because the client
does not yet know what the broker speaks (KIP-511). A broker answers the requests of a connection in order.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Protocol

from kafkasource.errors import ProtocolError, UnsupportedVersion
from kafkasource.kafka.protocol.apis import API_VERSIONS, Api
from kafkasource.kafka.protocol.primitives import Buffer, ByteReader, ByteWriter
from kafkasource.kafka.protocol.schema import Body, Fields

READ_AHEAD_BYTES = 64 * 1024
"""The bytes that `FrameReader` reads at once between large frames."""

TRUSTED_BYTES = (1 << 20) + READ_AHEAD_BYTES
"""A frame that claims no more gets its memory at once: the first fetch of a range, with its header."""

GROWTH = 4
"""The memory of a larger frame grows to at most this many times what has arrived of it."""

_LENGTH = struct.Struct(">i")
_REQUEST_HEADER = struct.Struct(">hhi")


def encode_request(api: Api, version: int, correlation_id: int, client_id: str | None, body: Fields) -> bytes:
    """One request with its length, ready for the socket. Copies records; `encode_request_parts` does not."""
    return b"".join(encode_request_parts(api, version, correlation_id, client_id, body))


def encode_request_parts(
    api: Api, version: int, correlation_id: int, client_id: str | None, body: Fields
) -> list[bytearray | memoryview]:
    """One request as pieces to send in this order; large records are views of the caller's own memory."""
    writer = ByteWriter()
    writer.int32(0)
    writer.pack(_REQUEST_HEADER, api.key, version, correlation_id)
    writer.nullable_string(client_id)  # never compact: an old broker must be able to read the header (KIP-482)
    if api.request.is_flexible(version):
        writer.unsigned_varint(0)  # no tagged fields
    api.request.write(version, body, writer)
    parts = writer.parts()
    length = sum(len(part) for part in parts) - _LENGTH.size
    _LENGTH.pack_into(parts[0], 0, length)
    return parts


def peek_correlation_id(frame: Buffer) -> int:
    return ByteReader(frame).int32()


def decode_head(api: Api, version: int, frame: Buffer, before: str) -> tuple[Body, memoryview]:
    """The fields of a response that come before this one, and the bytes from there on. Not of ApiVersions."""
    reader = ByteReader(frame)
    reader.int32()
    if api.response.is_flexible(version):
        reader.skip_tagged_fields()
    return api.response.read_head(version, reader, before), reader.take(reader.remaining)


def decode_response(
    api: Api, version: int, frame: Buffer, surplus: Callable[[Api, int, int], None] | None = None
) -> Body:
    """Decode the body of a response, whose frame is given without its length.

    `surplus` is called with the API, the version and the number of bytes behind the body, where there are any. Without
    it they are a `ProtocolError`.

    A broker that does not speak the asked version of ApiVersions answers with error UNSUPPORTED_VERSION in version 0,
    its own range of versions within (KIP-511): such a body is decoded as version 0. Some servers answer in another
    version. Each version begins with the code, so the body is the code alone then.
    """
    reader = ByteReader(frame)
    reader.int32()
    if api is API_VERSIONS:
        pos, code = reader.pos, reader.int16()
        reader.pos = pos
        if code:
            return _refusal(version, code, reader)
    elif api.response.is_flexible(version):
        reader.skip_tagged_fields()
    body = api.response.read(version, reader, exact=surplus is None)
    if surplus is not None and reader.remaining:
        surplus(api, version, reader.remaining)
    return body


def _refusal(version: int, code: int, reader: ByteReader) -> Body:
    """An answer to ApiVersions that holds an error."""
    try:
        return API_VERSIONS.response.read(0 if code == UnsupportedVersion.CODE else version, reader)
    except ProtocolError:
        return {"error_code": code, "api_keys": []}


def encode_response(api: Api, version: int, correlation_id: int, body: Fields) -> bytes:
    """One response with its length, as a broker sends it: for those that stand in for one."""
    tags = b"\0" if api is not API_VERSIONS and api.response.is_flexible(version) else b""
    data = correlation_id.to_bytes(4, "big") + tags + api.response.encode(version, body)
    return _LENGTH.pack(len(data)) + data


class ReceiveBlock(Protocol):
    """Memory that knows whether it is viewed."""

    @property
    def size(self) -> int: ...

    @property
    def is_free(self) -> bool: ...

    def view(self) -> memoryview: ...


class HeapBlock:
    """A `bytearray`: one that is viewed refuses to be resized."""

    def __init__(self, size: int) -> None:
        self._bytes = bytearray(size)
        self.size = size

    def view(self) -> memoryview:
        return memoryview(self._bytes)

    @property
    def is_free(self) -> bool:
        try:
            self._bytes.append(self._bytes.pop())  # within what is allocated: nothing moves
        except BufferError:
            return False
        return True


class FrameMemory(Protocol):
    """The source of memory for large frames."""

    def take(self, at_least: int, at_most: int) -> memoryview: ...


class FrameBuffers:
    """Memory of large frames, used again when nothing views it any more: fresh pages cost a quarter of a read's time.

    A view of a frame keeps the frame's block in use. This object keeps the last few blocks, none above a size;
    `allocate` makes them. For any thread: a block belongs to the thread that took it out of the list, and only then
    that thread checks whether the block is viewed.
    """

    def __init__(
        self, keep: int = 2, most_bytes: int = 16 << 20, allocate: Callable[[int], ReceiveBlock] = HeapBlock
    ) -> None:
        self._most = keep
        self._most_bytes = most_bytes
        self._allocate = allocate
        self._kept: list[ReceiveBlock] = []

    @property
    def kept_bytes(self) -> int:
        return sum(block.size for block in list(self._kept))

    def resize(self, keep: int, most_bytes: int) -> None:
        """Keep this many blocks from now on, none above this size. A viewed block goes with its last view."""
        self._most, self._most_bytes = keep, most_bytes
        for block in list(self._kept):
            if block.size > most_bytes:
                self._claim(block)
        del self._kept[: max(0, len(self._kept) - keep)]

    def take(self, at_least: int, at_most: int) -> memoryview:
        """A view of `at_least` bytes, or of up to `at_most` if a kept block has them. Their contents are undefined."""
        block = self._free(at_least, at_most)
        if block is None:
            for small in list(self._kept):
                if small.is_free:
                    self._claim(small)  # not kept beside a larger one
            block = self._allocate(-(-at_least // READ_AHEAD_BYTES) * READ_AHEAD_BYTES)  # so that the next one fits too
        view = block.view()
        if block.size <= self._most_bytes and self._most:
            self._kept.append(block)
            del self._kept[: -self._most]
        return view[:at_most]

    def _free(self, at_least: int, at_most: int) -> ReceiveBlock | None:
        """Take a kept block that nothing views out of the list."""
        free = [block for block in list(self._kept) if block.size >= at_least and block.is_free]
        for block in sorted(free, key=lambda block: min(block.size, at_most), reverse=True):
            if self._claim(block):
                if block.is_free:
                    return block
                self._kept.append(block)  # another thread has put it back by now
        return None

    def _claim(self, block: ReceiveBlock) -> bool:
        try:
            self._kept.remove(block)
        except ValueError:
            return False
        return True


class FrameReader:
    """Cuts what a broker sends into frames, with memory for the bytes that arrived, not for those that a length claims.

    Receive into `writable()`, then tell `advance()` how much came; or give bytes to `feed()`. A frame's memory stays in
    use as long as something views it (records are views of it). After a `ProtocolError` the stream has lost its place:
    close the connection. For one thread at a time. `buffers` may be shared by many.
    """

    def __init__(self, max_frame_bytes: int, buffers: FrameMemory | None = None) -> None:
        self._max_frame_bytes = max_frame_bytes
        self._buffers = FrameBuffers() if buffers is None else buffers
        self._ahead = memoryview(bytearray(READ_AHEAD_BYTES))
        self._ahead_bytes = 0  # bytes of it in use: the start of a frame, shorter than its length field
        self._frame: memoryview | None = None  # the frame under way
        self._frame_bytes = 0  # its claim
        self._received = 0  # how much of it came
        self._first = True
        self.has_headers = True  # of what comes next; bare tokens of SASL have none, and may be empty

    @property
    def pending_bytes(self) -> int:
        """Received bytes of a frame not yet complete."""
        return self._received if self._frame is not None else self._ahead_bytes

    def writable(self) -> memoryview:
        """The place for the next bytes, never empty. Valid until the next call of any method."""
        if self._frame is None:
            return self._ahead[self._ahead_bytes :]
        if self._received == len(self._frame):
            # A block instead of a grown one: its pages are touched only when bytes arrive.
            larger = self._buffers.take(min(self._frame_bytes, GROWTH * len(self._frame)), self._frame_bytes)
            larger[: self._received] = self._frame
            self._frame = larger
        return self._frame[self._received :]

    def advance(self, size: int) -> list[memoryview]:
        """Take `size` bytes now in `writable()`; return the frames that they complete, without their lengths."""
        if self._frame is None:
            return self._cut(self._ahead_bytes + size)
        self._received += size
        if self._received < self._frame_bytes:
            return []
        frame, self._frame = self._frame, None
        return [frame]

    def feed(self, data: Buffer) -> list[memoryview]:
        """Do the same with bytes that have been received already. It copies them."""
        view = memoryview(data).cast("B")
        frames: list[memoryview] = []
        while len(view):
            target = self.writable()
            size = min(len(target), len(view))
            target[:size] = view[:size]
            frames += self.advance(size)
            view = view[size:]
        return frames

    def _cut(self, end: int) -> list[memoryview]:
        frames: list[memoryview] = []
        pos = 0
        while end - pos >= _LENGTH.size:
            length = self._checked_length(pos)
            pos += _LENGTH.size
            have = min(length, end - pos)
            if length <= READ_AHEAD_BYTES:
                frame = memoryview(bytearray(length))
            else:
                frame = self._buffers.take(min(length, TRUSTED_BYTES), length)
            frame[:have] = self._ahead[pos : pos + have]
            pos += have
            if have < length:
                self._frame, self._frame_bytes, self._received = frame, length, have
                break
            frames.append(frame)
        self._ahead_bytes = end - pos
        self._ahead[: self._ahead_bytes] = bytes(self._ahead[pos:end])
        return frames

    def _checked_length(self, pos: int) -> int:
        raw = bytes(self._ahead[pos : pos + _LENGTH.size])
        length = int(_LENGTH.unpack(raw)[0])
        if self._first or length > self._max_frame_bytes:
            if raw == b"HTTP":
                raise ProtocolError("the other side speaks HTTP, not Kafka: is the port a web server's?")
            if raw[:2] in (b"\x15\x03", b"\x16\x03"):
                raise ProtocolError("the other side speaks TLS: set kafka.security.protocol to SSL or SASL_SSL")
        if length < (_LENGTH.size if self.has_headers else 0) or length > self._max_frame_bytes:
            raise ProtocolError(
                f"frame of {length} bytes (0x{raw.hex()}), at most {self._max_frame_bytes} expected: not Kafka's answer"
            )
        self._first = False
        return length
