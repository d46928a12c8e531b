"""JSON records to the columns of one type."""

from __future__ import annotations

import pyarrow as pa

from kafkasource.formats.decoding.decode import Decoder
from kafkasource.formats.json.columns import JsonLayout
from kafkasource.formats.json.programs import JsonProgram


class JsonDecoder(Decoder):
    """Of one type. There is one program, 0. A schema id in front of a record is passed over."""

    def __init__(self, kind: pa.DataType) -> None:
        """SchemaError with the place where there is no column for the type."""
        layout = JsonLayout(kind)
        super().__init__(layout, JsonProgram(layout))
