"""What kernel.py asks of the `cython` module where Cython is not installed; the compiled kernel never looks here."""

from __future__ import annotations

from contextlib import nullcontext

compiled = False
nogil = nullcontext()
