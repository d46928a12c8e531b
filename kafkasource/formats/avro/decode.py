"""Records of any number of Avro writers to the columns of one reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kafkasource.formats.avro.columns import AvroLayout
from kafkasource.formats.avro.programs import Programs
from kafkasource.formats.avro.schema import AvroRecord, Schema
from kafkasource.formats.decoding.decode import Decoder


class AvroDecoder(Decoder):
    """Decodes by one reader's schema. One thread at a time adds a writer."""

    def __init__(self, reader: Schema, writers: Sequence[Schema] = ()) -> None:
        """SchemaError where there is no column for the reader's schema, or it cannot read a writer's."""
        layout = AvroLayout(reader)
        self._writers = Programs(layout)
        super().__init__(layout, self._writers)
        for writer in writers:
            self.add(writer)

    def add(self, writer: Schema, records: Mapping[str, AvroRecord] | None = None) -> int:
        """The number of the writer's program. SchemaError with the place where the reader cannot read it.

        `records`: as `Programs.add` takes them.
        """
        return self._writers.add(writer, records)
