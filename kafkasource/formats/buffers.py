"""Numbers and bits of Arrow's buffers, for the interpreted kernels of the formats.

The compiled kernels have the same functions inline, from buffers.pxd. Numbers are in the byte order of this machine.
"""

from __future__ import annotations

import sys
from typing import Any

_ORDER = sys.byteorder
_MASK = (1 << 64) - 1


def is_little() -> bool:
    return _ORDER == "little"


def bit_at(bitmap: Any, index: int) -> int:
    return (bitmap[index >> 3] >> (index & 7)) & 1  # type: ignore[no-any-return]


def put_bit(out: Any, index: int, bit: int) -> None:
    byte, mask = out[index >> 3], 1 << (index & 7)
    out[index >> 3] = (byte | mask) if bit else (byte & (255 ^ mask))


def signed32(data: Any, index: int) -> int:
    return int.from_bytes(data[4 * index : 4 * index + 4], _ORDER, signed=True)


def signed64(data: Any, index: int) -> int:
    return int.from_bytes(data[8 * index : 8 * index + 8], _ORDER, signed=True)


def store32(out: Any, index: int, value: int) -> None:
    out[4 * index : 4 * index + 4] = (value & 0xFFFFFFFF).to_bytes(4, _ORDER)


def store64(out: Any, index: int, value: int) -> None:
    out[8 * index : 8 * index + 8] = (value & _MASK).to_bytes(8, _ORDER)


def product(left: int, right: int) -> tuple[int, int]:
    """Multiply two numbers of 64 bits: (the high half, the low one)."""
    whole = left * right
    return whole >> 64, whole & _MASK


def buffer_of(decoding: Any, column: int, which: int) -> Any:
    """A buffer of a column. Not a method: Cython would call one by a pointer wherever a class may have another."""
    return decoding._views[8 * column + which]


def cell_of(decoding: Any, column: int, which: int) -> int:
    """A number of `decoding._table`."""
    return decoding._table[column, which]  # type: ignore[no-any-return]
