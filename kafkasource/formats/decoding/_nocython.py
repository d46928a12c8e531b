"""Stands for the `cython` module in kernel.py if Cython is not installed. The compiled kernel does not use it."""

from __future__ import annotations

from contextlib import nullcontext

compiled = False
nogil = nullcontext()
