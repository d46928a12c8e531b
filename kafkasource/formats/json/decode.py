"""JSON records to the columns of one type."""

from __future__ import annotations

import pyarrow as pa

from kafkasource.formats.decoding.decode import Decoder
from kafkasource.formats.json.columns import JsonLayout
from kafkasource.formats.json.programs import JsonProgram


class JsonDecoder(Decoder):
    """Decodes records as one type, by one program (0). It passes over a schema id in front of a record."""

    def __init__(self, data_type: pa.DataType) -> None:
        """SchemaError with the place where there is no column for the type."""
        layout = JsonLayout(data_type)
        super().__init__(layout, JsonProgram(layout))
