"""Codecs: what other libraries read of ours and we of theirs, and how much memory a bomb gets."""

from __future__ import annotations

import gzip
import random
import struct
import subprocess
import sys
import tracemalloc
import zlib
from typing import ClassVar

import cramjam
import lz4.block
import lz4.frame
import pyarrow as pa
import pytest
import snappy
import zstandard
from record_wire import CODECS, batch, compressed, decompressed, record

from kafkasource.errors import CorruptRecordBatch, ProtocolError
from kafkasource.kafka.records import compression
from kafkasource.kafka.records.batches import decode
from kafkasource.kafka.records.compression import Arena, RecordBatchTooLarge, compress

RANGE = {"topic": "t", "partition": 0, "start_offset": 0, "end_offset": 1 << 62}
MIB = 1 << 20
PACKED = [codec for codec in CODECS if codec != "none"]
rng = random.Random(3)
SAMPLES = {
    "empty": b"",
    "byte": b"x",
    "text": b"a record like the others, " * 9000,
    "noise": rng.randbytes(200_000),
    "mixed": b"".join(rng.randbytes(99) + bytes(1000) for _ in range(400)),
    "a block": rng.randbytes(65536),
}


def unpacked(codec, data, limit=4 * MIB):
    arena = Arena()
    start, end = arena.decompress(CODECS[codec], pa.py_buffer(data), limit)
    return bytes(arena.view()[start:end])


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("codec", PACKED)
def test_other_libraries_read_what_we_compress(codec, sample):
    assert decompressed(compress(CODECS[codec], memoryview(SAMPLES[sample])), CODECS[codec]) == SAMPLES[sample]


@pytest.mark.parametrize("sample", SAMPLES)
@pytest.mark.parametrize("codec", PACKED)
def test_we_read_what_other_libraries_compress(codec, sample):
    assert unpacked(codec, compressed(SAMPLES[sample], codec)) == SAMPLES[sample]


def test_snappy_without_framing_is_read():
    assert unpacked("snappy", snappy.compress(SAMPLES["text"])) == SAMPLES["text"]
    records = b"".join(record(i) for i in range(9))
    data = batch([b""] * 9, codec="snappy", section=cramjam.snappy.compress_raw(records))
    assert decode(data, **RANGE).num_rows == 9


def test_lz4_frames_hold_independent_blocks_of_64_kib_as_kafkas_reader_demands():
    frame = compress(CODECS["lz4"], memoryview(SAMPLES["text"]))
    info = lz4.frame.get_frame_info(frame)
    assert (info["block_linked"], info["block_size"], info["content_checksum"]) == (False, 65536, False)
    (size,) = struct.unpack_from("<I", frame, 7)
    assert lz4.block.decompress(frame[11 : 11 + size], 65536) == SAMPLES["text"][:65536]


def test_lz4_frames_with_linked_blocks_and_checksums_are_read():
    frame = lz4.frame.compress(SAMPLES["mixed"], block_linked=True, content_checksum=True, block_checksum=True)
    assert unpacked("lz4", frame) == SAMPLES["mixed"]


@pytest.mark.parametrize(("codec", "levels"), [("gzip", (1, 9)), ("lz4", (1, 12)), ("zstd", (-5, 1, 19))])
def test_levels_are_honoured(codec, levels):
    sizes = [len(compress(CODECS[codec], memoryview(SAMPLES["mixed"]), level)) for level in levels]
    assert sizes == sorted(sizes, reverse=True)
    for level in levels:
        assert decompressed(compress(CODECS[codec], memoryview(b"abc" * 99), level), CODECS[codec]) == b"abc" * 99


@pytest.mark.parametrize("codec", PACKED)
def test_the_limit_is_exact(codec):
    data = compressed(bytes(100_000), codec)
    assert len(unpacked(codec, data, 100_000)) == 100_000
    with pytest.raises(RecordBatchTooLarge):
        unpacked(codec, data, 99_999)


def bomb(codec, size):
    if codec == "gzip":
        packer = zlib.compressobj(9, zlib.DEFLATED, 31)
        return b"".join(packer.compress(bytes(MIB)) for _ in range(size // MIB)) + packer.flush()
    if codec == "snappy":
        return snappy.compress(bytes(size))
    if codec == "lz4":
        return lz4.frame.compress(bytes(size), block_linked=False)
    return zstandard.compress(bytes(size))


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_within_the_limits_memory(codec, monkeypatch):
    data = batch(codec=codec, section=bomb(codec, 64 * MIB))
    native, allocate = [], pa.allocate_buffer
    monkeypatch.setattr(compression, "_arenas", [])
    monkeypatch.setattr(pa, "allocate_buffer", lambda size, *pool: native.append(size) or allocate(size, *pool))
    tracemalloc.start()
    try:
        with pytest.raises(RecordBatchTooLarge, match=f"more than the {MIB} bytes"):
            decode(data, **RANGE, max_decompressed_bytes=MIB)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    # The scratch memory with all that it outgrew; nothing in proportion to the bomb.
    assert native
    assert peak + sum(native) < 6 * MIB


class Scratch:
    """What arenas hold at most, at a time."""

    pools: ClassVar = []  # a pool that is gone must not get memory back

    def __init__(self, monkeypatch):
        self.pool = pa.proxy_memory_pool(pa.default_memory_pool())
        self.pools.append(self.pool)
        monkeypatch.setattr(compression, "_arenas", [])
        monkeypatch.setattr(compression, "_POOL", self.pool)

    @property
    def most(self):
        return self.pool.max_memory()


@pytest.mark.parametrize("codec", PACKED)
def test_a_bomb_is_refused_before_memory_is_allocated_for_it(codec, monkeypatch):
    """At the default limit. Doubling took 268 MB for a batch of 2.8 kB."""
    data = batch(codec=codec, section=bomb(codec, 96 * MIB))
    scratch = Scratch(monkeypatch)
    with pytest.raises(RecordBatchTooLarge, match=f"more than the {64 * MIB} bytes"):
        decode(data, **RANGE)
    assert scratch.most < 16 * MIB  # 8 at most, made from less


@pytest.mark.parametrize("size", [20 * MIB, 20 * MIB + 1, 8 * MIB, 8 * MIB + 1])
@pytest.mark.parametrize("codec", PACKED)
def test_a_large_batch_is_decompressed_into_memory_of_just_its_size(codec, size, monkeypatch):
    content = bytes(size - 5) + b"tail!"
    data = compressed(content, codec)
    scratch = Scratch(monkeypatch)
    arena = Arena()
    start, end = arena.decompress(CODECS[codec], pa.py_buffer(data), 64 * MIB)
    assert (start, end, arena.capacity) == (0, size, size)
    assert bytes(arena.view()) == content
    assert scratch.most <= size + 8 * MIB + 64  # Arrow aligns


WINDOWS = """
import sys
import pyarrow as pa, zstandard
from kafkasource.kafka.records.compression import ZSTD, Arena, RecordBatchTooLarge

def address_space():
    return int(open("/proc/self/status").read().split("VmPeak:")[1].split()[0]) << 10

packed = open(sys.argv[1], "rb").read()
Arena().decompress(ZSTD, pa.py_buffer(zstandard.compress(b"x")), 1 << 20)
before = address_space()
try:
    Arena().decompress(ZSTD, pa.py_buffer(packed), int(sys.argv[2]))
    print("taken")
except RecordBatchTooLarge:
    print("refused")
print(address_space() - before)
"""


def wide(*contents):
    """As Java's producer compresses at level 22: in a stream, so without the size, with windows of 128 MiB."""
    frames = []
    for content in contents:
        level = zstandard.ZstdCompressionParameters.from_level(1, window_log=27)
        packer = zstandard.ZstdCompressor(compression_params=level).compressobj()
        frames.append(packer.compress(content) + packer.flush())
    assert all(zstandard.get_frame_parameters(frame).window_size == 128 * MIB for frame in frames)
    return frames


@pytest.mark.parametrize(("size", "what"), [(1000, "taken"), (2 * MIB, "refused")])
def test_a_zstd_window_takes_no_more_memory_than_the_batch_may(tmp_path, size, what):
    """A decoder allocates what the header claims, 128 MiB, whatever is in the frame."""
    frame = wide(b"r" * size)[0]
    (tmp_path / "frame").write_bytes(frame)
    run = [sys.executable, "-c", WINDOWS, str(tmp_path / "frame"), str(MIB)]
    said, more = subprocess.run(run, capture_output=True, text=True, check=True).stdout.split()
    assert said == what
    assert int(more) < 16 * MIB


@pytest.mark.parametrize("limit", [350_000, 4 * MIB, 64 * MIB])
def test_zstd_frames_with_large_windows_are_read_all_the_same(limit):
    """Kafka allows level 22, and what reaches back furthest is what the batch begins with."""
    first = rng.randbytes(100_000)
    skippable = struct.pack("<II", 0x184D2A53, 7) + b"\x28\xb5\x2f\xfd..."
    one, two = wide(first + bytes(100) + first, first)
    assert unpacked("zstd", skippable + one + skippable + two, limit) == first + bytes(100) + first + first


def test_a_zstd_frame_whose_header_says_that_it_is_too_large_is_refused_before_it_is_read():
    frame = zstandard.compress(bytes(2 * MIB))
    assert unpacked("zstd", frame) == bytes(2 * MIB)
    with pytest.raises(RecordBatchTooLarge):
        unpacked("zstd", frame[:20], MIB)


def test_zstd_of_another_format_is_corrupt():
    with pytest.raises(CorruptRecordBatch, match="no frame begins with 27b52ffd"):
        unpacked("zstd", b"\x27" + zstandard.compress(b"x" * 100)[1:])


def test_scratch_memory_that_is_kept_is_not_of_a_pool_that_is_set_for_a_while(monkeypatch):
    monkeypatch.setattr(compression, "_arenas", [])
    default = pa.default_memory_pool()
    passing = pa.proxy_memory_pool(default)
    pa.set_memory_pool(passing)
    try:
        assert decode(batch(codec="zstd"), **RANGE).num_rows
        assert compression._arenas
    finally:
        pa.set_memory_pool(default)
    assert passing.bytes_allocated() == 0


def test_a_fetch_full_of_bombs_is_taken_one_call_at_a_time():
    records = b"".join(record(i, None, bytes(50_000)) for i in range(10))
    data = b"".join(
        batch([b""] * 10, base, codec="zstd", section=zstandard.compress(records)) for base in range(0, 500, 10)
    )
    decoded = decode(data, **RANGE, max_decompressed_bytes=MIB)
    assert (decoded.num_rows, decoded.limited, decoded.next_offset) == (20, True, 20)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"\x82SNAPPY\x00",
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 0),
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, -5),
        b"\x82SNAPPY\x00" + struct.pack(">iii", 1, 1, 1 << 30),
        b"\xff\xff\xff\xff\x0f" + b"claims 4 GiB",
        b"\xff\xff\xff\xff\xff\xff",
        b"\x05\x00",
    ],
)
def test_snappy_lengths_are_checked_before_anything_is_allocated(data):
    with pytest.raises(CorruptRecordBatch, match="snappy data is corrupt"):
        unpacked("snappy", data)


@pytest.mark.parametrize("codec", PACKED)
def test_mutated_compressed_data_never_raises_anything_but_our_errors(codec):
    random_ = random.Random(codec)
    good = compressed(b"".join(record(i, b"k", random_.randbytes(40)) for i in range(20)), codec)
    for _ in range(400):
        data = bytearray(good)
        for _ in range(random_.randrange(1, 4)):
            data[random_.randrange(len(data))] = random_.randrange(256)
        del data[random_.choice([len(data), random_.randrange(len(data))]) :]
        try:
            unpacked(codec, bytes(data), MIB)
        except ProtocolError:
            continue


BEHIND = [
    b"\0",
    bytes(8),
    b"nonsense",
    b"\x1f\x8b\x08",
    gzip.compress(b"hello" * 9)[:-12],
    b"\x04\x22\x4d\x18\x60",
    b"x" * 5000,
]
FRAMES = {
    "plain": {"block_linked": False},
    "checksums and size": {"content_checksum": True, "block_checksum": True, "store_size": True},
}


@pytest.mark.parametrize("behind", BEHIND, ids=range(len(BEHIND)))
@pytest.mark.parametrize("sample", SAMPLES)
def test_bytes_behind_whole_gzip_members_and_lz4_frames_are_ignored_as_javas_readers_do(sample, behind):
    content = SAMPLES[sample]
    assert unpacked("gzip", gzip.compress(content) + behind) == content
    assert unpacked("gzip", gzip.compress(content) * 2 + behind) == content * 2
    for chosen in FRAMES.values():
        frame = lz4.frame.compress(content, **chosen)
        assert unpacked("lz4", frame + behind) == content
        assert unpacked("lz4", frame * 2 + behind) == content * 2


@pytest.mark.parametrize("codec", ["gzip", "lz4"])
def test_bytes_behind_the_data_lift_no_limit(codec):
    data = compressed(bytes(100_000), codec) + bytes(8)
    assert len(unpacked(codec, data, 100_000)) == 100_000
    with pytest.raises(RecordBatchTooLarge):
        unpacked(codec, data, 99_999)
    with pytest.raises(RecordBatchTooLarge):
        unpacked(codec, bomb(codec, 64 * MIB) + bytes(8), MIB)


def test_an_lz4_frame_without_its_end_is_corrupt_at_every_length():
    for chosen in FRAMES.values():
        frame = lz4.frame.compress(SAMPLES["byte"] * 100, **chosen)
        for size in range(len(frame)):
            with pytest.raises(CorruptRecordBatch):
                unpacked("lz4", frame[:size])


def test_a_truncated_gzip_member_is_corrupt():
    data = gzip.compress(b"x" * 1000)
    for size in range(len(data)):
        with pytest.raises(CorruptRecordBatch):
            unpacked("gzip", data[:size])
