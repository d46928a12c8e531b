"""Typed rows: records in a schema's own format (Avro) to Arrow columns. No registry, options or Spark here.

`avro` reads schemas and compiles a (writer, reader) pair into a program of integers; `kernel`, compiled, runs such
programs over a column of records.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.kernels import load_kernel

_loaded, STALE = load_kernel(__name__, Path(__file__).parent, ("kernel.py", "kernel.pxd"))
if TYPE_CHECKING:
    from kafkasource.typed import kernel
else:
    kernel = _loaded
COMPILED: bool = _loaded.COMPILED
