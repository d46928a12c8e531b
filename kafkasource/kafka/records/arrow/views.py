"""Arrow arrays as the views that the kernel takes. A view keeps its Arrow buffer alive."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

if TYPE_CHECKING:
    from typing_extensions import Buffer

# Also for where the kernel wants memory to write to.
EMPTY = memoryview(bytearray())
NO_INTS = EMPTY.cast("i")
NO_LONGS = EMPTY.cast("q")


def view_of(buffer: pa.Buffer | None, item: Literal["i", "q"]) -> memoryview:
    """A buffer as int32 or int64; empty for none."""
    if buffer is None:
        return memoryview(b"").cast(item)
    view = memoryview(buffer).cast("B")
    # Arrow pads; a length that is not a multiple of the item would not cast
    return view[: len(view) // struct.calcsize(item) * struct.calcsize(item)].cast(item)


def validity(buffer: pa.Buffer | None, array: pa.Array) -> memoryview:
    """A validity bitmap, empty where nothing is null."""
    return EMPTY if buffer is None or array.null_count == 0 else memoryview(buffer).cast("B")


def binary_views(array: pa.Array | None) -> tuple[memoryview, memoryview, memoryview, int]:
    """(validity, offsets, data, the array's offset) of a binary or string array; offsets are empty for none."""
    if array is None:
        return EMPTY, NO_INTS, EMPTY, 0
    if array.type not in (pa.binary(), pa.string()):
        raise TypeError(f"expected binary or string, not {array.type}")
    valid, offsets, data = array.buffers()
    views = view_of(offsets, "i")
    if not len(views):  # an array of no rows may lack its offsets
        return EMPTY, memoryview(bytes(4 * (array.offset + 1))).cast("i"), EMPTY, array.offset
    return validity(valid, array), views, EMPTY if data is None else memoryview(data).cast("B"), array.offset


def int32_values(array: pa.Int32Array) -> memoryview:
    """The values of an array without nulls, as they lie in memory."""
    return view_of(array.buffers()[1], "i")[array.offset : array.offset + len(array)]


def int32_view(rows: Buffer) -> memoryview:
    """Any contiguous buffer, as int32."""
    view = memoryview(rows)
    return view if view.format == "i" else view.cast("B").cast("i")
