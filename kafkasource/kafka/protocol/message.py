"""Messages as data: a table of fields, each with the versions that carry it, compiled into a codec per version.

A body is a dict by field name, a struct in it a dict, an array a list.

- Decoding gives every field of the message: one that the version does not carry, or a tag left out, has its default.
- Encoding takes the default for what the body leaves out. A value other than the default for a field that the version
  does not carry is an error, unless the field is `ignorable`: better no request than one that means something else.
- Records come out as `memoryview` of the bytes that came in, and go out uncopied.

A message is flexible (KIP-482) from a version on: compact lengths, and tagged fields at the end of each struct.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kafkasource.errors import ProtocolError
from kafkasource.kafka.protocol.codec import struct_reader, struct_writer
from kafkasource.kafka.protocol.primitives import Buffer, ByteReader, ByteWriter
from kafkasource.kafka.protocol.schema import Body, Field, Fields, Read, Write


@dataclass(frozen=True)
class _Codec:
    read: Read
    write: Write


@dataclass(frozen=True, eq=False)
class Message:
    """A request or a response of one API in all the versions we speak."""

    name: str
    api_key: int
    versions: tuple[int, int]  # inclusive
    flexible_since: int
    fields: Sequence[Field]
    memory_factor: int = 0  # the message may take this many times its bytes, if that is more than `MAX_MEMORY_BYTES`
    _codecs: dict[int, _Codec] = field(default_factory=dict, init=False, repr=False)
    _heads: dict[tuple[int, str], Read] = field(default_factory=dict, init=False, repr=False)

    def __repr__(self) -> str:
        return f"<Message {self.name}>"

    def is_flexible(self, version: int) -> bool:
        return version >= self.flexible_since

    def encode(self, version: int, body: Fields) -> bytes:
        writer = ByteWriter()
        self.write(version, body, writer)
        return writer.getvalue()

    def decode(self, version: int, data: Buffer) -> Body:
        """The body that is all of `data`: bytes left over are a `ProtocolError` like bytes missing."""
        reader = ByteReader(data)
        return self.read(version, reader)

    def write(self, version: int, body: Fields, writer: ByteWriter) -> None:
        try:
            self._codec(version).write(writer, body)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} v{version}: {error}") from None

    def read(self, version: int, reader: ByteReader, exact: bool = True) -> Body:
        """The body that the reader stands at; `exact`: it must be all that the reader has left."""
        reader.memory_limit = max(reader.memory_limit, self.memory_factor * reader.remaining)
        try:
            body: Body = self._codec(version).read(reader)
            if exact:
                reader.finish()
        except ProtocolError as error:
            raise type(error)(f"{self.name} v{version}: {error}") from None
        return body

    def read_head(self, version: int, reader: ByteReader, before: str) -> Body:
        """Only the fields that come before this one; the reader stands at it then."""
        read = self._heads.get((version, before))
        if read is None:
            end = [f.name for f in self.fields].index(before)
            read = struct_reader(self.fields[:end], version, self.is_flexible(version), tags=False)
            self._heads[version, before] = read
        try:
            head: Body = read(reader)
        except ProtocolError as error:
            raise ProtocolError(f"{self.name} v{version}: {error}") from None
        return head

    def _codec(self, version: int) -> _Codec:
        codec = self._codecs.get(version)
        if codec is None:
            if not self.versions[0] <= version <= self.versions[1]:
                raise ProtocolError(f"we speak versions {self.versions[0]} to {self.versions[1]}")
            # Two threads may both get here; they make the same codec.
            flexible = self.is_flexible(version)
            read = struct_reader(self.fields, version, flexible)
            write = struct_writer(self.fields, version, flexible)
            codec = self._codecs[version] = _Codec(read, write)
        return codec
