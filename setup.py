"""Builds the compiled libraries: one for each kernel, and `_cyutility` for all of them. `KAFKASOURCE_KERNEL` says how:

- `auto` (default): compile it where that is possible. `require`: fail where it is not. `skip`: leave it interpreted.
- `abi3`: as `require`, for Python's stable ABI, so that one wheel serves Python 3.11 and all later ones. The kernel's
  memoryviews need what the stable ABI has from 3.11 on.

The extension is optional: without a C compiler the same file runs interpreted. Note that cythonize() drops `optional`
from the Extension it is given, so it is set on what cythonize() returns.
"""

import hashlib
import os
import runpy
import sys
import sysconfig
from pathlib import Path

from setuptools import setup

# The module, and its sources, the first of which is compiled. kafkasource.kafka.records.kernels hashes the same ones.
KERNELS = {
    "kafkasource.kafka.records.kernel": ("kernel.py", "kernel.pxd", "crc32c.h"),
    "kafkasource.formats.decoding.kernel": (
        "kernel.py",
        "kernel.pxd",
        "opcodes.py",
        "protobuf_opcodes.py",
        "../buffers.pxd",
    ),
    "kafkasource.formats.encoding.kernel": ("kernel.py", "kernel.pxd", "opcodes.py", "../buffers.pxd"),
    "kafkasource.formats.json.kernel": (
        "kernel.py",
        "kernel.pxd",
        "opcodes.py",
        "../buffers.pxd",
        "../decoding/kernel.pxd",
        "../decoding/opcodes.py",
    ),
}
# Cython adds this code to each file that uses memoryviews. In its own library gcc compiles it once, not four times.
SHARED = "kafkasource._cyutility"
# The lowest level at which we measured no loss. At -O1 decoding takes longer: records 2 times, Protobuf 1.15 times,
# JSON 1.04 times; so does encoding: Protobuf 1.08 times. At -O3 gcc takes twice as long as at -O1.
LEVELS = {
    SHARED: "-O1",
    "kafkasource.kafka.records.kernel": "-O3",
    "kafkasource.formats.decoding.kernel": "-O3",
    "kafkasource.formats.encoding.kernel": "-O2",
    "kafkasource.formats.json.kernel": "-O2",
}
MODES = ("auto", "require", "skip", "abi3")
MODE = os.environ.get("KAFKASOURCE_KERNEL", "auto")
MUST_COMPILE = MODE in ("require", "abi3")
LIMITED_API = [("Py_LIMITED_API", "0x030B0000"), ("CYTHON_LIMITED_API", "1")] if MODE == "abi3" else []


def folder_of(module):
    return Path(*module.split(".")[:-1])


def fingerprint(module):
    """What the library is built from; kafkasource.kafka.records.kernels computes the same of the sources beside it."""
    source = b"".join((folder_of(module) / name).read_bytes() for name in KERNELS[module])
    return int.from_bytes(hashlib.sha256(source).digest()[:7], "big")


def write_enums(module):
    """Write the constants of a kernel's opcodes as an enum of C, which its kernel.pxd includes; return the folder."""
    folder = Path("build", "enums")
    folder.mkdir(parents=True, exist_ok=True)
    numbers = {}
    for source in KERNELS[module]:
        if source in ("opcodes.py", "protobuf_opcodes.py"):
            names = runpy.run_path(str(folder_of(module) / source))
            numbers |= {name: value for name, value in names.items() if name.isupper() and type(value) is int}
    lines = [f"    {name} = {value}\n" for name, value in numbers.items()]
    text = "cdef enum:\n" + "".join(lines)
    path = folder / f"{folder_of(module).name}_opcodes.pxi"
    if numbers and (not path.exists() or path.read_text() != text):
        path.write_text(text)
    return str(folder)


def kernel_extensions():
    if MODE == "skip":
        return []
    try:
        from Cython.Build import cythonize
        from setuptools import Extension

        def flags(module):
            return [] if sys.platform == "win32" else [LEVELS[module], "-g0"]

        shared = Extension(
            SHARED,
            [SHARED.replace(".", "/") + ".c"],
            define_macros=LIMITED_API,
            py_limited_api=MODE == "abi3",
            extra_compile_args=flags(SHARED),
        )
        enums = {write_enums(module) for module in KERNELS}
        extensions = cythonize(
            [
                shared,
                *(
                    Extension(
                        module,
                        [str(folder_of(module) / sources[0])],
                        depends=[str(folder_of(module) / name) for name in sources[1:]],
                        include_dirs=[str(folder_of(module))],
                        define_macros=[("KAFKASOURCE_KERNEL_FINGERPRINT", f"{fingerprint(module)}LL"), *LIMITED_API],
                        py_limited_api=MODE == "abi3",
                        extra_compile_args=flags(module),
                    )
                    for module, sources in KERNELS.items()
                ),
            ],
            build_dir="build",
            include_path=[*enums],
            shared_utility_qualified_name=SHARED,
            # Nothing pickles an object of a kernel, and the code for it is a fifth of the C of records.
            compiler_directives={"language_level": "3", "auto_pickle": False},
        )
    except Exception:
        if MUST_COMPILE:
            raise
        return []
    for extension in extensions:
        extension.optional = not MUST_COMPILE
    return extensions


def refusal():
    """Why this build cannot be, in one line; None if it can."""
    if MODE not in MODES:
        return f"KAFKASOURCE_KERNEL={MODE}: expected one of {', '.join(MODES)}"
    if MODE != "skip" and sysconfig.get_config_var("Py_GIL_DISABLED"):
        # Loaded there, the kernel would switch the GIL on for the whole process.
        return (
            "kafkasource does not build its kernel for free-threaded Python: use the ordinary build of this Python, or "
            "install with KAFKASOURCE_KERNEL=skip, which runs the kernel interpreted, about a hundred times slower"
        )
    if MODE == "abi3" and sys.version_info < (3, 11):
        return "KAFKASOURCE_KERNEL=abi3 needs Python 3.11 or newer: here, KAFKASOURCE_KERNEL=require builds the kernel"
    return None


if refusal():
    sys.exit(refusal())
options = {"build_ext": {"parallel": True}}
if MODE == "abi3":
    options["bdist_wheel"] = {"py_limited_api": "cp311"}
setup(ext_modules=kernel_extensions(), options=options)
