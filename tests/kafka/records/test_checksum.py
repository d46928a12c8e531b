"""CRC32C by each implementation that may run, against crcmod and the check value of the polynomial."""

from __future__ import annotations

import random

import crcmod.predefined
import pytest

from kafkasource.kafka.records import checksum, kernel
from kafkasource.kafka.records.checksum import crc32c

oracle = crcmod.predefined.mkPredefinedCrcFun("crc-32c")


@pytest.fixture(params=["kernel", "google", "crcmod"])
def implementation(request, monkeypatch):
    if request.param == "kernel":
        if not kernel.CRC32C:
            pytest.skip("this kernel computes no CRC32C: interpreted, or the processor lacks the instruction")
        return
    monkeypatch.setattr(kernel, "CRC32C", False, raising=True)
    library = {"google": checksum._google, "crcmod": checksum._crcmod}[request.param]()
    if library is None:
        pytest.skip("google-crc32c has no C implementation here")
    monkeypatch.setattr(checksum, "extended_crc32c", library)


@pytest.mark.usefixtures("implementation")
def test_the_check_values_of_the_polynomial_are_met():
    # The catalogue's check, and RFC 3720, B.4.
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA
    assert crc32c(b"\xff" * 32) == 0x62A8AB43
    assert crc32c(bytes(range(32))) == 0x46DD794E
    assert crc32c(b"") == 0


@pytest.mark.usefixtures("implementation")
def test_every_length_at_any_alignment_is_as_crcmod_has_it():
    rng = random.Random(7)
    data = rng.randbytes(5000)
    for size in range(4097):
        pos = rng.randrange(64)
        part = memoryview(data)[pos : pos + size]
        assert crc32c(part) == oracle(part), (pos, size)
    large = rng.randbytes((1 << 20) + 77)
    assert crc32c(bytearray(large)) == oracle(large)
