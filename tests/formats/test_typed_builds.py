"""Both builds of the typed kernel pass the same tests."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from kafkasource.formats import decoding, encoding, json
from kafkasource.formats.decoding import COMPILED
from kafkasource.formats.decoding import opcodes as decoding_opcodes
from kafkasource.formats.encoding import opcodes as encoding_opcodes
from kafkasource.formats.json import opcodes as json_opcodes

HERE = Path(__file__).parent


@pytest.mark.parametrize("package", [decoding, encoding, json])
def test_the_compiled_kernels_are_of_the_sources_beside_them(package):
    assert not package.STALE, "run: python setup.py build_ext --inplace"


def test_each_error_code_of_a_kernel_has_a_text():
    assert set(decoding_opcodes.ERRORS) == set(range(1, 19))
    assert set(encoding_opcodes.ERRORS) == set(encoding_opcodes.CAUSES) == set(range(1, 8))
    assert set(json_opcodes.ERRORS) == set(range(32, 44))


@pytest.mark.extended
@pytest.mark.skipif(not COMPILED, reason="this run is that of the interpreted kernel")
def test_the_interpreted_kernel_passes_the_same_tests():
    env = {**os.environ, "KAFKASOURCE_KERNEL_INTERPRETED": "1"}
    suites = [
        str(HERE / name)
        for name in (
            *("test_avro_columns.py", "test_decode_as_fastavro.py", "test_recursive_writers.py"),
            *("test_protobuf_columns.py", "test_decode_as_protobuf.py"),
            *("test_avro_encode.py", "test_encode_as_avro.py"),
            *("test_protobuf_encode.py", "test_encode_as_protobuf.py", "test_json_encode.py"),
            "test_rescued_fields.py",
        )
    ]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-W", "ignore", *suites],
        env=env, cwd=HERE.parent.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="this run is that of the interpreted kernel")
def test_the_interpreted_decoder_of_json_makes_the_same_of_wrong_records():
    """Both builds are compared with Python's json."""
    env = {**os.environ, "KAFKASOURCE_KERNEL_INTERPRETED": "1", "KAFKASOURCE_JSON_INPUTS": "300"}
    suite = [str(HERE / "test_columns_of_json.py"), "-k", "not memory"]
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-W", "ignore", *suite],
        env=env, cwd=HERE.parent.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


def digest(**environment: str) -> list[str]:
    env = {**os.environ, "PYTHONPATH": str(HERE.parent.parent), **environment}
    run = subprocess.run(
        [sys.executable, "-W", "ignore", str(HERE / "wrong_records_digest.py"), "1000"],
        env=env, cwd=HERE.parent.parent, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()


@pytest.mark.slow
@pytest.mark.skipif(not COMPILED, reason="this run is that of the interpreted kernel")
def test_both_builds_make_the_same_of_wrong_records_with_the_same_reasons():
    compiled, interpreted = digest(), digest(KAFKASOURCE_KERNEL_INTERPRETED="1")
    assert (compiled[0], interpreted[0]) == ("compiled", "interpreted")
    assert len(compiled) == 1001
    assert compiled[1:] == interpreted[1:]
