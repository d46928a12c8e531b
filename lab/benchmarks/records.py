"""The records that are read and written: how many, how large, how compressed, and the DataFrame that makes them.

Values are JSON-like with random parts, so that codecs have something to do: a value of 100 B holds 32 random hex
digits, longer ones 16 in every 121 B. Making them costs the same for every contestant and is measured by itself.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

KEY_BYTES = 7
CODECS = ("none", "lz4", "zstd", "snappy", "gzip")
_UNIT = 121


@dataclass(frozen=True)
class Records:
    rows: int
    value_bytes: int = 100
    codec: str = "none"
    headers: int = 0
    partitions: int = 4

    @property
    def name(self) -> str:
        """What tells it from others in a table: `100 B lz4`."""
        return f"{size_name(self.value_bytes)} {f'{self.headers} headers' if self.headers else self.codec}"

    @property
    def payload_bytes(self) -> int:
        return self.rows * (KEY_BYTES + self.value_bytes)

    def frame(self, spark: Any, tasks: int = 4) -> Any:
        """A DataFrame that computes them: key, value, and headers where there are any."""
        columns = [f"lpad(CAST(id AS STRING), {KEY_BYTES}, '0') AS key", f"{value_sql(self.value_bytes)} AS value"]
        if self.headers:
            each = (
                f"named_struct('key', 'header-{i}', 'value', CAST(lpad(CAST(id AS STRING), 8, '{i}') AS BINARY))"
                for i in range(self.headers)
            )
            columns.append(f"array({', '.join(each)}) AS headers")
        return spark.range(0, self.rows, 1, tasks).selectExpr(*columns)


def value_sql(size: int) -> str:
    """A SQL expression of `id`: a text of exactly `size` bytes."""
    if size < 64:
        return f"lpad(CAST(id AS STRING), {size}, '0')"
    if size < 2 * _UNIT:
        text = """concat('{"id":', id, ',"user":"', hex(xxhash64(id)), '","session":"', hex(xxhash64(id, 1)), '"}')"""
        return f"rpad({text}, {size}, ' ')"
    filler = "the same words in every record, as field names and constants are; "
    units = min(8, size // _UNIT)
    parts = ", ".join(f"""'"field-{k}":"', hex(xxhash64(id, {k})), '","text":"{filler}",'""" for k in range(units))
    text = f"concat({parts})"
    if size > 8 * _UNIT:
        text = f"repeat({text}, {size // (units * 100)})"
    return f"rpad({text}, {size}, ' ')"


def size_name(size: int) -> str:
    for unit, factor in (("MB", 1_000_000), ("kB", 1000)):
        if size >= factor:
            return f"{size / factor:g} {unit}"
    return f"{size} B"
