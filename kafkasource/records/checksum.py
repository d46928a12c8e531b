"""CRC32C of record batches: google-crc32c's C implementation at 20 GB/s, crcmod (60 times slower) where it has none."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import pyarrow as pa


def _google() -> Callable[[Any], int] | None:
    try:
        import google_crc32c
    except ImportError:
        return None
    # Its pure Python fallback is slower than crcmod's C extension.
    return cast("Callable[[Any], int]", google_crc32c.value) if google_crc32c.implementation == "c" else None


def _crcmod() -> Callable[[Any], int]:
    import crcmod.predefined

    return cast("Callable[[Any], int]", crcmod.predefined.mkPredefinedCrcFun("crc-32c"))


_value = _google() or _crcmod()


def crc32c(data: pa.Buffer) -> int:
    """CRC32C (Castagnoli) as the record batch v2 has it. google-crc32c refuses memoryview but takes a pa.Buffer."""
    return _value(data)
