"""JSON records to the columns of one type."""

from __future__ import annotations

import pyarrow as pa

from kafkasource.formats.decoding.decode import Decoder
from kafkasource.formats.json.columns import JsonLayout
from kafkasource.formats.json.programs import JsonProgram


class JsonDecoder(Decoder):
    """Decodes records as one type, by one program (0). It passes over a schema id in front of a record."""

    def __init__(self, data_type: pa.DataType, *, rescues: bool = False) -> None:
        """`rescues`: the struct has one more field, the last: the rescued fields. SchemaError with the place where
        there is no column for the type."""
        layout = JsonLayout(data_type, rescues)
        super().__init__(layout, JsonProgram(layout))
