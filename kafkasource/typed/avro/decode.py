"""Records of any number of Avro writers to the columns of one reader."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa

from kafkasource.typed.avro.arrow_types import arrow_type
from kafkasource.typed.avro.columns import AvroLayout
from kafkasource.typed.avro.programs import Programs
from kafkasource.typed.avro.schema import Schema
from kafkasource.typed.decode import Decoded, decode


class AvroDecoder:
    """Of one reader's schema. Threads may decode at once; one of them at a time adds a writer."""

    def __init__(self, reader: Schema, writers: Sequence[Schema] = ()) -> None:
        """SchemaError where there is no column for the reader's schema, or it cannot read a writer's."""
        self.type: pa.DataType = arrow_type(reader)
        self._layout = AvroLayout(reader)
        self._programs = Programs(self._layout)
        for writer in writers:
            self.add(writer)

    def add(self, writer: Schema) -> int:
        """The number of the writer's program. SchemaError with the place where the reader cannot read it."""
        return self._programs.add(writer)

    def decode(
        self,
        values: pa.Array,
        most_bytes: int,
        *,
        skip_bytes: int = 0,
        programs: memoryview | None = None,
        start: int = 0,
    ) -> Decoded:
        """As `typed.decode.decode`; `programs`: of each row the number that `add` gave for its writer."""
        return decode(
            self._layout, self._programs, values, most_bytes, skip_bytes=skip_bytes, of_rows=programs, start=start
        )

    def batches(self, values: pa.Array, most_bytes: int, **more: object) -> Iterator[Decoded]:
        """All rows, in pieces; keywords as of `decode`."""
        start = 0
        while start < len(values):
            piece = self.decode(values, most_bytes, start=start, **more)  # type: ignore[arg-type]
            yield piece
            start = piece.end
