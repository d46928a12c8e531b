"""Record batches v2 written by hand from the specification (KIP-98), so that they can be wrong on purpose.

Nothing of kafkasource.kafka.records is used here; CRCs are crcmod's. `ask_kafka` has Kafka's own classes write and
read them.
"""

from __future__ import annotations

import gzip
import struct
from pathlib import Path

import crcmod.predefined
import lz4.frame
import snappy
import zstandard
from java_programs import ask_java

HEADER = struct.Struct(">qiibIhiqqqhii")
CODECS = {"none": 0, "gzip": 1, "snappy": 2, "lz4": 3, "zstd": 4}
LOG_APPEND, TRANSACTIONAL, CONTROL = 0x08, 0x10, 0x20
crc32c = crcmod.predefined.mkPredefinedCrcFun("crc-32c")


def ask_kafka(commands):
    """The answers of Kafka's own record classes."""
    return ask_java(Path(__file__).with_name("KafkaRecords.java"), commands)


def varint(value):
    raw = (value << 1) ^ (value >> 63)
    out = bytearray()
    while raw > 0x7F:
        out.append(raw & 0x7F | 0x80)
        raw >>= 7
    out.append(raw)
    return bytes(out)


def sized(data):
    return varint(-1) if data is None else varint(len(data)) + data


def record(offset_delta=0, key=b"k", value=b"v", headers=(), timestamp_delta=0, attributes=0):
    body = bytes([attributes]) + varint(timestamp_delta) + varint(offset_delta) + sized(key) + sized(value)
    body += varint(len(headers)) + b"".join(sized(k) + sized(v) for k, v in headers)
    return varint(len(body)) + body


def compressed(data, codec):
    """By libraries that the package does not use for it, where there are some."""
    if codec == "gzip":
        return gzip.compress(data)
    if codec == "snappy":
        blocks = [snappy.compress(data[i : i + 32768]) for i in range(0, len(data), 32768)]
        return b"\x82SNAPPY\x00" + struct.pack(">ii", 1, 1) + b"".join(struct.pack(">i", len(b)) + b for b in blocks)
    if codec == "lz4":
        return lz4.frame.compress(data, block_linked=False)
    if codec == "zstd":
        return zstandard.compress(data)
    return data


def batch(
    records=None,
    base_offset=0,
    *,
    codec="none",
    attributes=0,
    count=None,
    last_offset_delta=None,
    base_timestamp=1_700_000_000_000,
    max_timestamp=None,
    producer=(-1, -1, -1),
    magic=2,
    section=None,
    length=None,
):
    """One batch; what is not given is made to fit. `section` replaces what the records would be encoded to."""
    records = [record()] if records is None else records
    if section is None:
        section = compressed(b"".join(records), codec)
    count = len(records) if count is None else count
    out = bytearray(
        HEADER.pack(
            base_offset,
            49 + len(section) if length is None else length,
            3,
            magic,
            0,
            attributes | CODECS[codec],
            max(count - 1, 0) if last_offset_delta is None else last_offset_delta,
            base_timestamp,
            base_timestamp if max_timestamp is None else max_timestamp,
            *producer,
            count,
        )
        + section
    )
    return bytes(repaired(out))


def repaired(data):
    """The same bytes with the CRC that they should have."""
    data = bytearray(data)
    data[17:21] = struct.pack(">I", crc32c(bytes(data[21:])))
    return data


def marker(base_offset, producer_id, *, commit, version=0):
    """A control batch with the end marker of a transaction: key version int16 and type int16."""
    key, value = struct.pack(">hh", version, int(commit)), struct.pack(">hi", 0, 0)
    return batch(
        [record(key=key, value=value)],
        base_offset,
        attributes=TRANSACTIONAL | CONTROL,
        producer=(producer_id, 0, -1),
    )


def number(data, pos, bits=32):
    """A zigzag varint. Java's reader drops what is beyond its bits."""
    raw = shift = 0
    while True:
        byte = data[pos]
        pos += 1
        raw |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            raw &= (1 << bits) - 1
            return (raw >> 1) ^ -(raw & 1), pos


def taken(data, pos):
    size, pos = number(data, pos)
    return (None, pos) if size < 0 else (bytes(data[pos : pos + size]), pos + size)


def decompressed(data, codec):
    if codec == 1:
        return gzip.decompress(data)
    if codec == 2:
        if data[:8] != b"\x82SNAPPY\x00":
            return snappy.decompress(data)
        out, pos = b"", 16
        while len(data) - pos >= 4:  # Java's reader ignores a rest of fewer bytes
            if data[pos : pos + 8] == data[:8]:
                pos += 16
                continue
            size = int.from_bytes(data[pos : pos + 4], "big")
            out += snappy.decompress(data[pos + 4 : pos + 4 + size])
            pos += 4 + size
        return out
    if codec == 3:
        return lz4.frame.decompress(data)
    if codec == 4:
        return zstandard.ZstdDecompressor().stream_reader(data, read_across_frames=True).read()
    return data


def rows_of(data):
    """The records of one well-formed batch: (attributes, offset, timestamp ms, key, value, headers). Checks nothing.

    A batch that has all its records is numbered by place.
    """
    (base, _, _, _, _, attributes, last_delta, base_timestamp, max_timestamp, _, _, _, count) = HEADER.unpack_from(data)
    section = decompressed(bytes(data[61:]), attributes & 7)
    rows, pos = [], 0
    for place in range(count):
        _, pos = number(section, pos)
        own_attributes = section[pos]
        timestamp, pos = number(section, pos + 1, 64)
        delta, pos = number(section, pos)
        offset = base + (place if count == last_delta + 1 else delta)
        key, pos = taken(section, pos)
        value, pos = taken(section, pos)
        headers, (size, pos) = [], number(section, pos)
        for _ in range(size):
            header_key, pos = taken(section, pos)
            header_value, pos = taken(section, pos)
            headers.append((header_key.decode("utf-8", "replace"), header_value))
        # Java adds two longs.
        timestamp = max_timestamp if attributes & LOG_APPEND else (base_timestamp + timestamp + 2**63) % 2**64 - 2**63
        rows.append((own_attributes, offset, timestamp, key, value, headers))
    return rows
