"""JSON: a type's text to an Arrow type (`types_of`), the columns of a type, records to columns (`decode`).

`kernel`, compiled, extends the decoder of `formats.decoding`: it reads text, and needs no schema of the writer.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.formats import decoding
from kafkasource.kafka.records.kernels import load_kernel

_SOURCES = (
    "kernel.py",
    "kernel.pxd",
    "opcodes.py",
    "../buffers.pxd",
    "../decoding/kernel.pxd",
    "../decoding/opcodes.py",
)
_loaded, STALE = load_kernel(__name__, Path(__file__).parent, _SOURCES, compiled=decoding.COMPILED)
if TYPE_CHECKING:
    from kafkasource.formats.json import kernel
else:
    kernel = _loaded
COMPILED: bool = _loaded.COMPILED
