"""Protobuf records to the columns of one message type."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafkasource.typed.decode import Decoded, decode
from kafkasource.typed.protobuf.columns import MessageLayout
from kafkasource.typed.protobuf.programs import MessageProgram
from kafkasource.typed.protobuf.rendering import AS_FROM_PROTOBUF, Rendering
from kafkasource.typed.protobuf.schema import MessageType, ProtobufSchema


class ProtobufDecoder:
    """Of one message type of the reader's schema. Threads may decode at once."""

    def __init__(self, schema: ProtobufSchema, message: MessageType, rendering: Rendering = AS_FROM_PROTOBUF) -> None:
        """SchemaError with the place where there is no column for the message."""
        self._layout = MessageLayout(schema, message, rendering)
        self._program = MessageProgram(schema, self._layout, rendering)
        self.type: pa.DataType = self._layout.root.type

    def decode(
        self,
        values: pa.Array,
        most_bytes: int,
        *,
        skip_bytes: int = 0,
        programs: memoryview | None = None,
        start: int = 0,
    ) -> Decoded:
        """As `typed.decode.decode`; `programs`: of each row 0, or NOT_DECODED."""
        return decode(
            self._layout, self._program, values, most_bytes, skip_bytes=skip_bytes, of_rows=programs, start=start
        )

    def batches(self, values: pa.Array, most_bytes: int, **more: object) -> Iterator[Decoded]:
        """All rows, in pieces; keywords as of `decode`."""
        start = 0
        while start < len(values):
            piece = self.decode(values, most_bytes, start=start, **more)  # type: ignore[arg-type]
            yield piece
            start = piece.end
