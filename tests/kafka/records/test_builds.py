"""The two builds of the kernel: which one runs is known, a stale one is noticed, and both pass the same tests."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import kafkasource.kafka.records
from kafkasource.kafka.records import COMPILED

HERE = Path(__file__).parent
ROOT = HERE.parents[2]
PACKAGE = Path(kafkasource.kafka.records.__file__).parent
NOT_AGAIN = ("test_builds.py", "test_sanitized.py")
# In `make test`: the loops over record batches. The source is one: what else is wrong, the compiled kernel shows too.
SHORT = ("test_decode.py", "test_builder.py", "test_checksum.py", "test_content_sum.py")
ASK = "import kafkasource.kafka.records as r; print(r.COMPILED, r.STALE)"


def python(*arguments, interpreted=False, path=None, **environment):
    env = {**os.environ, "PYTHONPATH": str(path or ROOT), **environment}
    env.pop("KAFKASOURCE_KERNEL_INTERPRETED", None)
    if interpreted:
        env["KAFKASOURCE_KERNEL_INTERPRETED"] = "1"
    return subprocess.run(
        [sys.executable, *arguments], env=env, cwd=path or ROOT, capture_output=True, text=True, check=False
    )


def copy_of_the_package(folder, *, compiled):
    shutil.copytree(
        PACKAGE.parents[1],
        folder / "kafkasource",
        ignore=shutil.ignore_patterns("__pycache__", *([] if compiled else ["*.so", "*.pyd"])),
    )
    return folder


def test_the_compiled_kernel_is_of_the_source_beside_it():
    assert not kafkasource.kafka.records.STALE, "run: python setup.py build_ext --inplace"


def test_the_interpreted_kernel_runs_where_asked_for_and_warns_with_the_remedy():
    run = python("-c", ASK, interpreted=True)
    assert run.stdout.split() == ["False", "False"]
    assert "RuntimeWarning" in run.stderr
    assert "--no-binary kafkasource" in run.stderr
    assert "gcc or clang" in run.stderr


def test_a_package_without_its_library_warns_and_works(tmp_path):
    run = python("-c", ASK, path=copy_of_the_package(tmp_path, compiled=False))
    assert run.stdout.split() == ["False", "False"]
    assert "RuntimeWarning" in run.stderr


def test_the_interpreted_kernel_needs_no_cython(tmp_path):
    (tmp_path / "cython.py").write_text("raise ImportError('not installed')\n")
    code = "import sys; sys.path.insert(0, sys.argv[1]); " + ASK
    run = python("-c", code, str(tmp_path), interpreted=True)
    assert run.stdout.split() == ["False", "False"], run.stderr


@pytest.mark.skipif(not COMPILED, reason="nothing is compiled")
def test_gcc_compiles_what_cython_adds_for_memoryviews_once_and_not_for_each_kernel():
    """Four copies of it doubled the time of an installation."""
    ask = "import sys, kafkasource.formats.json.kernel; print('kafkasource._cyutility' in sys.modules)"
    assert python("-c", ask).stdout.split() == ["True"]


@pytest.mark.skipif(not COMPILED, reason="there is no library that could be stale")
@pytest.mark.parametrize("edited", ["kernel.py", "kernel.pxd", "crc32c.h"])
def test_a_library_older_than_its_source_is_noticed(tmp_path, edited):
    copy_of_the_package(tmp_path, compiled=True)
    assert python("-W", "error", "-c", ASK, path=tmp_path).stdout.split() == ["True", "False"]
    with (tmp_path / "kafkasource/kafka/records" / edited).open("a") as source:
        source.write("\n# edited\n" if edited != "crc32c.h" else "\n/* edited */\n")
    run = python("-c", ASK, path=tmp_path)
    assert run.stdout.split() == ["True", "True"]
    assert "build_ext --inplace" in run.stderr


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="this run is that of the interpreted kernel")
@pytest.mark.parametrize(
    "suite",
    [
        pytest.param(path.name, marks=() if path.name in SHORT else pytest.mark.extended)
        for path in sorted(HERE.glob("test_*.py"))
        if path.name not in NOT_AGAIN
    ],
)
def test_the_interpreted_kernel_passes_the_same_tests(suite):
    run = python("-m", "pytest", "-q", "-x", "-W", "ignore", str(HERE / suite), interpreted=True)
    assert run.returncode == 0, run.stdout + run.stderr
