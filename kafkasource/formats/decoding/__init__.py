"""Typed rows: records in a schema's own format to Arrow columns. No registry, options or Spark here.

`avro` and `protobuf` read schemas and compile them into programs of integers; `kernel`, compiled, runs such programs
over a column of records; `decode` gives it buffers and makes arrays of them. One kernel has both formats: a decoder in
another module would call the shared helpers through pointers, some 2 ns each.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from kafkasource.kafka.records.kernels import load_kernel

_SOURCES = ("kernel.py", "kernel.pxd", "opcodes.py", "protobuf_opcodes.py", "../buffers.pxd")
_loaded, STALE = load_kernel(__name__, Path(__file__).parent, _SOURCES)
if TYPE_CHECKING:
    from kafkasource.formats.decoding import kernel
else:
    kernel = _loaded
COMPILED: bool = _loaded.COMPILED
