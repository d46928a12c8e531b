"""How a column becomes records: resolved on the driver, carried to the tasks as plain values."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa

from kafkasource.formats.framing import HEADER_NAMES, Side, frame_bytes
from kafkasource.formats.record_encoders import RecordEncoder, message_frame, record_encoder
from kafkasource.formats.schema_source import RegisteredSchema


@dataclass(frozen=True, slots=True)
class WriteFormat:
    """The format in which keys or values are written. Tasks need no registry for it."""

    side: Side
    schema: RegisteredSchema
    schema_id: int | None  # None: records do not say it
    in_header: bool = False
    message_name: str | None = None  # of a Protobuf schema that declares several

    @property
    def frame(self) -> bytes:
        """The id, and which message of a Protobuf schema it is. Empty where records do not say it. SchemaError where
        the schema has no such message."""
        if self.schema_id is None:
            return b""
        return frame_bytes(self.schema_id) + message_frame(self.schema, self.message_name)

    @property
    def header(self) -> tuple[str, bytes] | None:
        """Name and value of each record's header that says the id."""
        return (HEADER_NAMES[self.side], _frame(self)) if self.schema_id is not None and self.in_header else None

    def encoder(self, data_type: pa.DataType) -> RecordEncoder:
        """Return the encoder for a column of this type. SchemaError where the schema does not take it."""
        return _encoder(self, data_type)


@lru_cache(maxsize=64)
def _encoder(write_format: WriteFormat, data_type: pa.DataType) -> RecordEncoder:
    return record_encoder(
        write_format.schema, data_type, b"" if write_format.in_header else write_format.frame, write_format.message_name
    )


@lru_cache(maxsize=64)
def _frame(write_format: WriteFormat) -> bytes:
    return write_format.frame
