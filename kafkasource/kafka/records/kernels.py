"""Loads a compiled kernel, or the same file interpreted, and says which it is.

Read `COMPILED` of a package with a kernel in the process that does the work: the driver may have a library that an
executor lacks (a zip on `--py-files` never loads one). The environment variable
`KAFKASOURCE_KERNEL_INTERPRETED=1`, read at import, takes kernel.py itself: tests run both.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import importlib.util
import os
import sys
import sysconfig
import warnings
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType


def load_kernel(
    package: str, folder: Path, sources: Sequence[str], *, compiled: bool = True
) -> tuple[ModuleType, bool]:
    """(the module `kernel` of a package, whether its library was built of other `sources` than those in the folder).

    Warns where it is interpreted, once for all kernels of this process, or built of other sources. `sources` as in
    setup.py. `compiled`: False takes kernel.py itself, because another kernel that it builds on is interpreted.
    """
    loaded = _module(f"{package}.kernel", folder, compiled)
    # An editable install goes on loading a library older than an edited kernel.py, so builds carry their source's hash.
    stale = loaded.COMPILED and _fingerprint(folder, sources) not in (None, loaded.FINGERPRINT)
    if not loaded.COMPILED:
        _warn_that_this_process_is_slow()
    if stale:
        warnings.warn(
            f"kafkasource's compiled kernel was built from other sources than the {folder.name}/kernel.py beside it. "
            "Remedy: `python setup.py build_ext --inplace`, or install the package again.",
            RuntimeWarning,
            stacklevel=3,
        )
    return loaded, stale


def _module(name: str, folder: Path, compiled: bool) -> ModuleType:
    if not compiled or os.environ.get("KAFKASOURCE_KERNEL_INTERPRETED", "") not in ("", "0"):
        spec = importlib.util.spec_from_file_location(name, folder / "kernel.py")
        if spec is not None and spec.loader is not None:
            module = importlib.util.module_from_spec(spec)
            sys.modules[name] = module
            spec.loader.exec_module(module)
            return module
    return importlib.import_module(name)


def _fingerprint(folder: Path, sources: Sequence[str]) -> int | None:
    """setup.py's `fingerprint` of the sources beside us; None where they are not plain files (a zip)."""
    try:
        source = b"".join((folder / name).read_bytes() for name in sources)
    except OSError:
        return None
    return int.from_bytes(hashlib.sha256(source).digest()[:7], "big")


@functools.cache
def _warn_that_this_process_is_slow() -> None:
    warnings.warn(_uncompiled(), RuntimeWarning, stacklevel=4)


def _uncompiled() -> str:
    if sysconfig.get_config_var("Py_GIL_DISABLED"):
        why = (
            "kafkasource has no compiled kernel for free-threaded Python, and is not tested on it. Remedy: use the "
            "ordinary build of this Python."
        )
    else:
        why = (
            "Remedy: on the Python that Spark's workers use, with a C compiler present (gcc or clang and Python's "
            "headers), run `pip install --force-reinstall --no-binary kafkasource kafkasource`; a zip given by "
            "--py-files never loads a compiled library."
        )
    return "kafkasource runs its kernel uncompiled in this process: correct, but about a hundred times slower. " + why
