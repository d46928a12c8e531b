"""The compiled kernel under AddressSanitizer and UndefinedBehaviorSanitizer, over the tests of wrong and right bytes.

With every allocation made by malloc (Arrow's and Python's own pools would hide an overrun), a read or write a byte
outside a buffer ends the run. A kernel with one length check taken out proves that it does.

In `make sanitize` (after a change of the kernel) and `make extended`: minutes.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from kafkasource.kafka.records import COMPILED

pytestmark = [
    pytest.mark.skipif(not COMPILED, reason="needs the compiled kernel"),
    pytest.mark.slow,
    pytest.mark.extended,
    pytest.mark.skipif(sys.platform != "linux" or shutil.which("gcc") is None, reason="needs gcc on Linux"),
]

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
SUITES = [
    "test_batch_fuzz.py",
    "test_decode.py",
    "test_chosen_columns.py",
    "test_builder.py",
    "test_partitions.py",
    "test_checksum.py",
]
TYPED_SUITES = [
    "../../formats/test_avro_columns.py",
    "../../formats/test_wrong_records.py",
    "../../formats/test_protobuf_columns.py",
    "../../formats/test_decode_as_protobuf.py",
    "../../formats/test_avro_encode.py",
    "../../formats/test_encode_as_avro.py",
    "../../formats/test_protobuf_encode.py",
    "../../formats/test_encode_as_protobuf.py",
    "../../formats/test_json_encode.py",
]
JSON_SUITES = ["../../formats/test_columns_of_json.py", "../../formats/test_rescued_fields.py"]
# Shifts and alignment are as Cython's own code has them.
FLAGS = "-O1 -g -fno-omit-frame-pointer -fsanitize=address,undefined -fno-sanitize=shift,alignment"
# Of each kernel, a check and its suites.
JSON_CHECK = (
    "        if size > self._table[column, ROOM] - start:\n"
    "            self.wanted_column = column\n"
    "            self.wanted = start + size\n"
    "            return -1\n"
    "        into"
)
CHECK = "            if length > record_end - pos:\n                return BAD_KEY\n"
TYPED_CHECK = (
    "                if size < 0 or size > end - after:\n                    return self._failed(BAD_LENGTH, pc)\n"
)


def library(name):
    return subprocess.run(
        ["gcc", f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()


def run(folder, *, package="kafka/records", suites=SUITES, without=""):
    shutil.copytree(ROOT / "kafkasource", folder / "kafkasource", ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    shutil.copy(ROOT / "setup.py", folder)
    kernel = folder / "kafkasource" / package / "kernel.py"
    source = kernel.read_text()
    assert without in source
    kernel.write_text(source.replace(without, "        into" if without == JSON_CHECK else ""))
    build = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--inplace"],
        cwd=folder,
        env={**os.environ, "CFLAGS": FLAGS, "LDFLAGS": FLAGS, "KAFKASOURCE_KERNEL": "require"},
        capture_output=True,
        text=True,
        check=False,
    )
    if "cannot find -lasan" in build.stderr or "cannot find -lubsan" in build.stderr:
        pytest.skip("needs libasan and libubsan")
    assert build.returncode == 0, build.stdout + build.stderr
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-s", "-p", "no:kafkasource", "-W", "ignore", f"--rootdir={ROOT}"]
        + [str(HERE / suite) for suite in suites],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": str(folder),
            # libstdc++ too: it must be there when ASan looks for the functions that it replaces.
            "LD_PRELOAD": f"{library('libasan.so')} {library('libstdc++.so.6')}",
            "ASAN_OPTIONS": "detect_leaks=0",
            "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1",
            "ARROW_DEFAULT_MEMORY_POOL": "system",
            "PYTHONMALLOC": "malloc",
        },
        capture_output=True,
        text=True,
        check=False,
    )


def test_no_bytes_make_the_kernel_touch_memory_that_is_not_its_own(tmp_path):
    done = run(tmp_path, suites=SUITES + TYPED_SUITES + JSON_SUITES)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


@pytest.mark.parametrize(
    ("package", "suites", "check"),
    [
        ("kafka/records", SUITES, CHECK),
        ("formats/decoding", TYPED_SUITES, TYPED_CHECK),
        ("formats/json", JSON_SUITES, JSON_CHECK),
    ],
)
def test_the_sanitizers_notice_a_missing_length_check(tmp_path, package, suites, check):
    done = run(tmp_path, package=package, suites=suites, without=check)
    assert done.returncode != 0
    assert "AddressSanitizer" in done.stderr, done.stdout[-3000:] + done.stderr[-3000:]
