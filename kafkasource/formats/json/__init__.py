"""JSON: a type's text to an Arrow type (`types_of`), the columns of a type, records to columns (`decode`).

`kernel`, compiled, is a decoder of its own: it needs no schema of the writer, and reads text.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.kafka.records.kernels import load_kernel

_loaded, STALE = load_kernel(__name__, Path(__file__).parent, ("kernel.py", "kernel.pxd"))
if TYPE_CHECKING:
    from kafkasource.formats.json import kernel
else:
    kernel = _loaded
COMPILED: bool = _loaded.COMPILED
