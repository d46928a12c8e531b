"""Values of typed columns as JSON has them: `pykafka read --value-format`.

Numbers, texts and booleans are JSON's. A timestamp is `2026-11-21T22:30:05.250000Z` (without the Z where it has no
zone), outside of the years 1 to 9999 its number of microseconds since 1970; a date is `2026-11-21`, a decimal a text
with all its digits, a duration the text `1.500000s`, bytes are base64, a map is an object, and a double that is no
number is the text `NaN`, `Infinity` or `-Infinity`.
"""

from __future__ import annotations

import base64
import itertools
import json
import math
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pyarrow as pa

_YEARS_S = -62_135_596_800, 253_402_300_800  # the beginnings of the years 1 and 10000
_IN_A_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}

encode = json.JSONEncoder(ensure_ascii=False).encode


def is_binary(column: pa.Array) -> bool:
    """Whether the column has the bytes of keys or values."""
    import pyarrow.types as types

    return bool(types.is_binary(column.type))


def as_bytes(column: pa.Array) -> list[bytes | None]:
    """Keys or values to print: bytes and texts as they are, everything else as a line of JSON. None: null."""
    import pyarrow.types as types

    if is_binary(column):
        values: list[bytes | None] = column.to_pylist()
        return values
    if types.is_string(column.type):
        return [None if text is None else text.encode() for text in column.to_pylist()]
    return [None if value is None else encode(value).encode() for value in json_values(column)]


def json_values(column: pa.Array) -> list[object]:
    """A column's values for JSON. Converted by column, because Python's types cannot hold every time and number."""
    import pyarrow as pa
    import pyarrow.types as types

    data_type = column.type
    if types.is_struct(data_type):
        names = [data_type.field(i).name for i in range(data_type.num_fields)]
        members = zip(*map(json_values, column.flatten()), strict=True) if names else [()] * len(column)
        objects = [dict(zip(names, row, strict=True)) for row in members]
        return _with_nulls(column, objects)
    if types.is_list(data_type):
        elements = iter(json_values(column.flatten()))
        return [None if n is None else [next(elements) for _ in range(n)] for n in _lengths(column)]
    if types.is_map(data_type):
        return _maps(column)
    if types.is_timestamp(data_type):
        return moments(column)
    if types.is_duration(data_type):
        return [None if micros is None else _seconds(micros) for micros in column.cast(pa.int64()).to_pylist()]
    if types.is_date(data_type) or types.is_decimal(data_type):
        texts: list[object] = column.cast(pa.string()).to_pylist()
        return texts
    values = column.to_pylist()
    if types.is_floating(data_type):
        return [number if number is None or math.isfinite(number) else _not_finite(number) for number in values]
    if types.is_binary(data_type):
        return [None if data is None else base64.b64encode(data).decode() for data in values]
    plain: list[object] = values
    return plain


def _with_nulls(column: pa.Array, values: list[object] | list[dict[str, object]]) -> list[object]:
    if not column.null_count:
        return list(values)
    return [value if valid else None for value, valid in zip(values, column.is_valid().to_pylist(), strict=True)]


def _lengths(column: pa.Array) -> list[int | None]:
    import pyarrow.compute as pc

    lengths: list[int | None] = pc.list_value_length(column).to_pylist()
    return lengths


def _maps(column: pa.MapArray) -> list[object]:
    offsets = column.offsets.to_pylist()  # into keys and items as they lie, whatever part of them this column is
    first, last = offsets[0], offsets[-1]
    keys = column.keys.slice(first, last - first).to_pylist()
    items = json_values(column.items.slice(first, last - first))
    objects = [
        dict(zip(keys[start - first : end - first], items[start - first : end - first], strict=True))
        for start, end in itertools.pairwise(offsets)
    ]
    return _with_nulls(column, objects)


def moments(column: pa.Array) -> list[object]:
    """Timestamps as texts, in the unit of the column. A time outside of the years 1 to 9999 stays a number, because a
    text has only four digits for the year."""
    import pyarrow as pa
    import pyarrow.compute as pc

    zone = "Z" if column.type.tz else ""
    numbers = column.cast(pa.int64())
    texts: list[object] = pc.strftime(
        numbers.cast(pa.timestamp(column.type.unit)), f"%Y-%m-%dT%H:%M:%S{zone}"
    ).to_pylist()
    first, end = (year_s * _IN_A_SECOND[column.type.unit] for year_s in _YEARS_S)
    beyond = pc.or_(pc.less(numbers, first), pc.greater_equal(numbers, end))
    if not pc.any(beyond).as_py():
        return texts
    return [
        number if outside else text
        for text, number, outside in zip(texts, numbers.to_pylist(), beyond.to_pylist(), strict=True)
    ]


def _seconds(micros: int) -> str:
    return f"{'-' if micros < 0 else ''}{abs(micros) // 1_000_000}.{abs(micros) % 1_000_000:06}s"


def _not_finite(value: float) -> str:
    if math.isnan(value):
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"
