"""JSON records to the columns of one type."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from kafkasource.typed.decode import Decoded, decode
from kafkasource.typed.json.columns import JsonLayout
from kafkasource.typed.json.programs import JsonProgram


class JsonDecoder:
    """Of one type. Threads may decode at once."""

    def __init__(self, kind: pa.DataType) -> None:
        """SchemaError with the place where there is no column for the type."""
        self._layout = JsonLayout(kind)
        self._program = JsonProgram(self._layout)
        self.type = kind

    def decode(
        self,
        values: pa.Array,
        most_bytes: int,
        *,
        skip_bytes: int = 0,
        programs: memoryview | None = None,
        start: int = 0,
    ) -> Decoded:
        """As `typed.decode.decode`; `programs`: of each row 0, or NOT_DECODED. A schema id in front is passed over."""
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
