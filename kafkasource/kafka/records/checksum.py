"""CRC32C (Castagnoli) of record batches: the kernel's own where the processor has the instruction, without the GIL;
else google-crc32c's C implementation, as fast but holding the GIL (1.9 gives it up for `bytes` of 1 MiB or more only);
else crcmod, 60 times slower.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, cast

import pyarrow as pa

from kafkasource.kafka.records import kernel

if TYPE_CHECKING:
    from typing_extensions import Buffer

Extend = Callable[[int, "Buffer"], int]


def _google() -> Extend | None:
    try:
        import google_crc32c
    except ImportError:
        return None
    if google_crc32c.implementation != "c":  # its pure Python fallback is slower than crcmod's C extension
        return None
    # It refuses memoryview but takes a pa.Buffer.
    return lambda crc, data: int(google_crc32c.extend(crc, pa.py_buffer(data)))


def _crcmod() -> Extend:
    import crcmod.predefined

    run = cast("Callable[[Buffer, int], int]", crcmod.predefined.mkPredefinedCrcFun("crc-32c"))
    return lambda crc, data: run(pa.py_buffer(data), crc)


extended_crc32c = _google() or _crcmod()
"""`(crc of what came before, data)`: CRC32C of both, one behind the other. From 0 on."""


def crc32c(data: Buffer) -> int:
    """CRC32C of any contiguous buffer."""
    if kernel.CRC32C:
        return int(kernel.crc32c(memoryview(data).cast("B")))
    return extended_crc32c(0, data)
