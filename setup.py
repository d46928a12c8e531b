"""Builds the one compiled file. `KAFKASOURCE_KERNEL`: `auto` (default: compile where possible), `require`, or `skip`.

The extension is optional: without a C compiler the same file runs interpreted. Note that cythonize() drops `optional`
from the Extension it is given, so it is set on what cythonize() returns.
"""

import hashlib
import os
import sys
from pathlib import Path

from setuptools import setup

KERNEL = "kafkasource/records/kernel.py"
DEPENDS = ["kafkasource/records/kernel.pxd", "kafkasource/records/crc32c.h"]
MODE = os.environ.get("KAFKASOURCE_KERNEL", "auto")


def fingerprint():
    """What the library was built from; kafkasource.records computes the same of the sources beside it."""
    source = b"".join(Path(path).read_bytes() for path in (KERNEL, *DEPENDS))
    return int.from_bytes(hashlib.sha256(source).digest()[:7], "big")


def kernel_extensions():
    if MODE == "skip":
        return []
    try:
        from Cython.Build import cythonize
        from setuptools import Extension

        flags = [] if sys.platform == "win32" else ["-O3", "-g0"]
        extensions = cythonize(
            [
                Extension(
                    "kafkasource.records.kernel",
                    [KERNEL],
                    depends=DEPENDS,
                    include_dirs=["kafkasource/records"],
                    define_macros=[("KAFKASOURCE_KERNEL_FINGERPRINT", f"{fingerprint()}LL")],
                    extra_compile_args=flags,
                )
            ],
            build_dir="build",
            compiler_directives={"language_level": "3"},
        )
    except Exception:
        if MODE == "require":
            raise
        return []
    for extension in extensions:
        extension.optional = MODE != "require"
    return extensions


if MODE not in ("auto", "require", "skip"):
    sys.exit(f"KAFKASOURCE_KERNEL={MODE}: expected auto, require or skip")
setup(ext_modules=kernel_extensions())
