"""Typed columns to records: Arrow arrays to a schema's own format. No registry, options or Spark here.

`input` finds the buffers of an array; a program (`opcodes`) says what of them a record has, in its order; `kernel`,
compiled, runs it for each row; `encode` gives it memory and makes binary columns of what it writes.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.kafka.records.kernels import load_kernel

_SOURCES = ("kernel.py", "kernel.pxd", "opcodes.py", "../buffers.pxd")
_loaded, STALE = load_kernel(__name__, Path(__file__).parent, _SOURCES)
if TYPE_CHECKING:
    from kafkasource.formats.encoding import kernel
else:
    kernel = _loaded
COMPILED: bool = _loaded.COMPILED
