"""How a column becomes records: resolved on the driver, carried to the tasks as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from kafkasource.typed.framing import HEADER_NAMES, Side, frame_bytes
from kafkasource.typed.record_encoders import RecordEncoder, record_encoder
from kafkasource.typed.schema_source import RegisteredSchema


@dataclass(frozen=True, slots=True)
class WriteFormat:
    """Of the keys or the values. Tasks need no registry for it."""

    side: Side
    schema: RegisteredSchema
    schema_id: int | None  # None: records do not say it
    in_header: bool = False

    @property
    def prefix(self) -> bytes:
        """In front of each record."""
        return b"" if self.schema_id is None or self.in_header else frame_bytes(self.schema_id)

    @property
    def header(self) -> tuple[str, bytes] | None:
        """Name and value of each record's header that says the id."""
        if self.schema_id is None or not self.in_header:
            return None
        return HEADER_NAMES[self.side], frame_bytes(self.schema_id)

    def encoder(self, kind: pa.DataType) -> RecordEncoder:
        """For a column of this type. SchemaError where the schema does not take it."""
        return _encoder(self, kind)


@lru_cache(maxsize=64)
def _encoder(one: WriteFormat, kind: pa.DataType) -> RecordEncoder:
    return record_encoder(one.schema, kind, one.prefix)
