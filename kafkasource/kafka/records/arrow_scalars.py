"""Arrow scalars without `pa.scalar`, which imports pandas where it is installed.

Spark starts a Python process for many a step of a job, and pandas takes a quarter of a second of each. `pa.array` of a
list, and functions of `pyarrow.compute` that are given a Python number or text, import it, too: give them one of these.
"""

from __future__ import annotations

from array import array

import pyarrow as pa


def scalar(value: int | str | bytes, kind: pa.DataType) -> pa.Scalar:
    """The value as an int32, an int64, a string or a binary."""
    if isinstance(value, int):
        number = array("i" if kind.bit_width == 32 else "q", [value])
        return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(number)])[0]
    data = value.encode() if isinstance(value, str) else value
    ends = array("i", [0, len(data)])
    return pa.Array.from_buffers(kind, 1, [None, pa.py_buffer(ends), pa.py_buffer(data)])[0]
