"""A double as a float."""

from __future__ import annotations

import math
import struct


def single(value: float) -> float:
    """The nearest float: beyond their range an infinite one, as Java's cast has it."""
    try:
        return float(struct.unpack("=f", struct.pack("=f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)
