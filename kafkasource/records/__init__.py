"""Record batches between wire bytes and Arrow: `batches` decodes, `builder` encodes, `kernel` is the one compiled file.

`COMPILED` says whether this process runs the compiled kernel. Read it in the process that does the work: the driver may
have a library that an executor lacks (a zip on `--py-files` never loads one). The environment variable
`KAFKASOURCE_KERNEL_INTERPRETED=1`, read at import, takes kernel.py itself: tests run both.
"""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
import sysconfig
import warnings
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

_HERE = Path(__file__).parent


def _load_kernel() -> ModuleType:
    name = __name__ + ".kernel"
    if os.environ.get("KAFKASOURCE_KERNEL_INTERPRETED", "") not in ("", "0"):
        spec = importlib.util.spec_from_file_location(name, _HERE / "kernel.py")
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
    return importlib.import_module(name)


def _source_fingerprint() -> int | None:
    """setup.py's `fingerprint` of the sources beside us; None where they are not plain files (a zip)."""
    try:
        source = b"".join((_HERE / name).read_bytes() for name in ("kernel.py", "kernel.pxd", "crc32c.h"))
    except OSError:
        return None
    return int.from_bytes(hashlib.sha256(source).digest()[:7], "big")


_loaded = _load_kernel()
if TYPE_CHECKING:
    from kafkasource.records import kernel
else:
    kernel = _loaded
COMPILED: bool = _loaded.COMPILED
# An editable install goes on loading a library older than an edited kernel.py, so builds carry their source's hash.
STALE: bool = COMPILED and _source_fingerprint() not in (None, _loaded.FINGERPRINT)

if not COMPILED:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        _why = (
            "kafkasource has no compiled kernel for free-threaded Python, and is not tested on it. Remedy: use the "
            "ordinary build of this Python."
        )
    else:
        _why = (
            "Remedy: on the Python that Spark's workers use, with a C compiler present (gcc or clang and Python's "
            "headers), run `pip install --force-reinstall --no-binary kafkasource kafkasource`; a zip given by "
            "--py-files never loads a compiled library."
        )
    warnings.warn(
        "kafkasource runs its kernel uncompiled in this process: correct, but about a hundred times slower. " + _why,
        RuntimeWarning,
        stacklevel=2,
    )
if STALE:
    warnings.warn(
        "kafkasource's compiled kernel was built from other sources than the kernel.py beside it. Remedy: "
        "`python setup.py build_ext --inplace`, or install the package again.",
        RuntimeWarning,
        stacklevel=2,
    )
