"""Message sets v0 and v1 written and read by hand from Kafka's protocol guide, so that they can be wrong on purpose.

Nothing of kafkasource.kafka.records is used here. LZ4 of magic 0 has a wrong header checksum, as Kafka's first
clients wrote.
"""

from __future__ import annotations

import struct
import zlib

from record_wire import compressed, decompressed

CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3}
LOG_APPEND = 0x08
TIME = 1_500_000_000_000
FIRST_LZ4_CHECKSUM = b"\x60\x40\x1a"  # of a frame of independent 64 KiB blocks, as Kafka's classes write it in magic 0
RIGHT_LZ4_CHECKSUM = b"\x82"


def sized(data):
    return struct.pack(">i", -1) if data is None else struct.pack(">i", len(data)) + data


def message(offset=0, key=b"k", value=b"v", *, magic=1, attributes=0, timestamp=TIME, body=None, size=None):
    """One message; what is not given is made to fit. `body` replaces key and value with their lengths."""
    body = sized(key) + sized(value) if body is None else body
    covered = struct.pack(">BB", magic, attributes) + (struct.pack(">q", timestamp) if magic else b"") + body
    size = 4 + len(covered) if size is None else size
    return struct.pack(">qiI", offset, size, zlib.crc32(covered)) + covered


def repaired(data):
    """One message with the CRC that it should have."""
    return data[:12] + struct.pack(">I", zlib.crc32(bytes(data[16:]))) + data[16:]


def pack(data, codec, magic):
    packed = compressed(data, codec)
    return with_other_lz4_checksum(packed) if codec == "lz4" and magic == 0 else packed


def with_other_lz4_checksum(frame):
    """Of an LZ4 frame's header: the wrong one from the right one, and back."""
    end = 14 if frame[4] & 8 else 6  # with the size of the content
    return frame[:end] + bytes([frame[end] ^ 0xFF]) + frame[end + 1 :]


def wrapper(inner, offset, *, codec, magic=1, attributes=0, timestamp=TIME, section=None):
    """A compressed message around `inner`, messages as bytes."""
    section = pack(b"".join(inner), codec, magic) if section is None else section
    attributes |= CODECS[codec]
    return message(offset, None, section, magic=magic, attributes=attributes, timestamp=timestamp)


def wrapped(rows, offset, *, codec, magic=1, **more):
    """A wrapper around rows of (key, value, timestamp), the first of which has `offset`, as a broker writes it."""
    first = 0 if magic else offset
    inner = [
        message(first + i, key, value, magic=magic, timestamp=timestamp)
        for i, (key, value, timestamp) in enumerate(rows)
    ]
    return wrapper(inner, offset + len(rows) - 1, codec=codec, magic=magic, **more)


def unpacked(data, codec, magic):
    if codec == CODECS["lz4"] and not magic:
        if data[4:7] == FIRST_LZ4_CHECKSUM:
            data = data[:6] + RIGHT_LZ4_CHECKSUM + data[7:]
        else:
            data = with_other_lz4_checksum(data)
    return decompressed(data, codec)


def rows_of(data):
    """(offset, timestampType, timestamp ms, key, value) of a run of well-formed messages. Checks nothing."""
    rows, pos = [], 0
    while pos < len(data):
        offset, size, _, magic, attributes = struct.unpack_from(">qiIBB", data, pos)
        one = data[pos + 18 : pos + 12 + size]
        pos += 12 + size
        timestamp, kind = -1, -1
        if magic:
            (timestamp,), kind = struct.unpack_from(">q", one), int(bool(attributes & LOG_APPEND))
            one = one[8:]
        key, one = _taken(one)
        value, _ = _taken(one)
        if not attributes & 7:
            rows.append((offset, kind, timestamp, key, value))
            continue
        inner = rows_of(unpacked(value, attributes & 7, magic))
        shift = offset - inner[-1][0] if magic else 0
        rows += [(o + shift, kind, timestamp if kind == 1 else t, k, v) for o, _, t, k, v in inner]
    return rows


def _taken(data):
    (size,) = struct.unpack_from(">i", data)
    return (None, data[4:]) if size < 0 else (data[4 : 4 + size], data[4 + size :])
