"""Record batches between wire bytes and Arrow: `batches` decodes, `builder` encodes, `kernel` is the compiled file.

`COMPILED` says whether this process runs the compiled kernel: see kafkasource.kafka.records.kernels.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.kafka.records.kernels import load_kernel

_loaded, STALE = load_kernel(__name__, Path(__file__).parent, ("kernel.py", "kernel.pxd", "crc32c.h"))
if TYPE_CHECKING:
    from kafkasource.kafka.records import kernel
else:
    kernel = _loaded
COMPILED: bool = _loaded.COMPILED
