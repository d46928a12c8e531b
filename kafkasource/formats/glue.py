"""The frame of AWS Glue's schema registry, and records that are compressed behind it.

    0x03, compression, UUID of the schema's version (16 bytes), record

The compression is 0x00, none, or 0x05: the bytes behind the UUID are zlib's. For Protobuf, the record begins with a
number (a varint, not zigzag) that says the message: its place among all messages of the file, sorted by full name.
"""

from __future__ import annotations

import zlib
from collections.abc import Container, Iterator

import pyarrow as pa
import pyarrow.compute as pc

GLUE_BYTES = 18  # of the frame
MOST_BYTES = 16 << 20  # of one record that is decompressed, and of those that are held at once
_PLAIN, _COMPRESSED = b"\3\0", b"\3\5"


def plain_parts(values: pa.BinaryArray, without: Container[int]) -> Iterator[tuple[int, pa.BinaryArray]]:
    """Yield (first row, rows) for all rows, one part after the other, with plain records in place of compressed ones.

    A part has at most MOST_BYTES, or one record. A record that zlib cannot decompress, or that is too large, stays as
    it is. `without`: rows without a frame.
    """
    wanted = pc.indices_nonzero(pc.starts_with(values, pattern=_COMPRESSED).fill_null(False)).to_pylist()
    start, held = 0, 0
    plain: dict[int, bytes] = {}
    for row in wanted:
        found = None if row in without else _decompressed(values[row].as_py())
        if found is None:
            continue
        if plain and held + len(found) > MOST_BYTES:
            yield start, _replaced(values, start, row, plain)
            start, held, plain = row, 0, {}
        plain[row] = found
        held += len(found)
    yield start, _replaced(values, start, len(values), plain)


def _decompressed(record: bytes) -> bytes | None:
    """Give the record with the frame of a plain one."""
    machine = zlib.decompressobj()
    try:
        found = machine.decompress(memoryview(record)[GLUE_BYTES:], MOST_BYTES)
    except zlib.error:
        return None
    if not machine.eof or machine.unused_data:
        return None
    return _PLAIN + record[len(_PLAIN) : GLUE_BYTES] + found


def _replaced(values: pa.BinaryArray, start: int, end: int, plain: dict[int, bytes]) -> pa.BinaryArray:
    part = values.slice(start, end - start)
    if not plain:
        return part
    is_plain = pa.array([row in plain for row in range(start, end)], pa.bool_())
    return pc.replace_with_mask(part, is_plain, pa.array(plain.values(), pa.binary()))
